"""Drives the whole surface of a server with the `mcp` client of PyPI, in the generation named first.

Prints one JSON document with what it saw; any surprise is an exception.
"""

import asyncio
import json
import os
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters


async def main(mode: str, binary: str, project: str) -> dict:
    server = StdioServerParameters(command=binary, args=["serve"], env=dict(os.environ), cwd=project)
    seen: dict = {"progress": []}

    async def progressed(progress, total, message):
        seen["progress"].append(progress)

    async with Client(server, mode=mode) as client:
        tools = await client.list_tools()
        seen["tools"] = sorted(tool.name for tool in tools.tools)

        async def call(name: str, **arguments):
            result = await client.call_tool(name, arguments, progress_callback=progressed)
            text = json.loads(result.content[0].text)
            assert text == result.structured_content, (text, result.structured_content)
            return result, text

        _, agents = await call("list_agents", directory=project)
        seen["agents"] = [agent["name"] for agent in agents["agents"]]
        _, ran = await call("run_agent", agent="greeter", prompt="world", directory=project)
        seen["result"] = ran["result"]
        tasks = [{"agent": "greeter", "prompt": name, "directory": project} for name in ("a", "b")]
        _, many = await call("run_agents", runs=tasks, wait_s=20)
        seen["many"] = sorted(run["result"] for run in many["runs"])
        _, handle = await call("run_agent", agent="slow", prompt="x", directory=project, wait_s=0)
        seen["handle_status"] = handle["status"]
        _, cancelled = await call("cancel_run", run_id=handle["run_id"])
        _, waited = await call("wait_runs", run_ids=[handle["run_id"]], wait_s=20)
        seen["cancelled"] = waited["runs"][0]["status"]
        _, asked = await call("run_agent", agent="asker", prompt="x", directory=project, wait_s=2)
        seen["asked"] = asked["status"]
        await call("answer_run", run_id=asked["run_id"], text="blue")
        _, answered = await call("wait_runs", run_ids=[asked["run_id"]], wait_s=20)
        seen["answered"] = answered["runs"][0]["result"]
        _, got = await call("get_run", run_id=ran["run_id"], events_from=0)
        seen["events"] = got["events"][0]["type"]
        _, listed = await call("list_runs", directory=project)
        seen["listed"] = len(listed["runs"])
        _, health = await call("health", directory=project)
        seen["health"] = sorted(line["agent"] for line in health["agents"])
        wrong = await client.call_tool("run_agent", {"agent": "gretter", "prompt": "x", "directory": project})
        seen["wrong"] = [wrong.is_error, "greeter" in wrong.content[0].text]
        resources = await client.list_resources()
        seen["resources"] = sorted(str(resource.uri) for resource in resources.resources)
        read = await client.read_resource(f"volery://runs/{ran['run_id']}")
        seen["read"] = json.loads(read.contents[0].text)["status"]
        templates = await client.list_resource_templates()
        seen["templates"] = sorted(template.uri_template for template in templates.resource_templates)
    seen["progress"] = len(seen["progress"]) > 0
    return seen


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
