"""Runs a slow agent as the OpenAI Agents SDK would: under the library's own name, with a read time-out of five seconds.

Prints one JSON document with what it saw; a call that is not answered in time is an exception.
"""

import asyncio
import json
import os
import sys
import time

from mcp import Client
from mcp.client.stdio import StdioServerParameters


async def main(binary: str, project: str) -> dict:
    server = StdioServerParameters(command=binary, args=["serve"], env=dict(os.environ), cwd=project)
    seen = []

    async def progressed(progress, total, message):
        pass

    async with Client(server, mode="legacy", read_timeout_seconds=5) as client:
        run_id = None
        for callback in (None, progressed):
            began = time.monotonic()
            arguments = {"agent": "slow", "prompt": "x", "directory": project}
            result = await client.call_tool("run_agent", arguments, progress_callback=callback)
            report = json.loads(result.content[0].text)
            run_id = report["run_id"]
            seen.append([report["status"], time.monotonic() - began < 4])
        began = time.monotonic()
        result = await client.call_tool("wait_runs", {"run_ids": [run_id]})
        waited = json.loads(result.content[0].text)
        seen.append([waited["runs"][0]["status"], time.monotonic() - began < 4])
    return {"answers": seen}


print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2]))))
