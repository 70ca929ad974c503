#!/bin/sh
# Imitates Claude Code: reads a file, asks whether it may execute a command, and answers. "Wait." makes it wait, and "Which" makes it
# ask a question that needs words.
say() { printf '%s\n' "$1"; }
session=11111111-1111-4111-8111-111111111111
text() { say '{"type":"assistant","message":{"content":[{"type":"text","text":"'"$1"'"}]},"parent_tool_use_id":null}'; }
call() { say '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"'"$1"'","name":"'"$2"'","input":'"$3"'}]},"parent_tool_use_id":null}'; }
returned() { say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"'"$1"'","is_error":false,"content":"'"$2"'"}]}}'; }
finish() { say '{"type":"result","subtype":"success","is_error":false,"result":"'"$1"'","session_id":"'"$session"'","num_turns":1,"usage":{"input_tokens":1200,"output_tokens":80},"total_cost_usd":0.0123}'; }

case "$*" in *--version*) echo "2.1.325 (Claude Code)"; exit ;; esac
read -r prompt
case $prompt in *control_request*)
    id=$(printf '%s' "$prompt" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
    say '{"type":"control_response","response":{"subtype":"success","request_id":"'"$id"'","response":{}}}'
    read -r prompt
    ;;
esac
say '{"type":"system","subtype":"init","session_id":"'"$session"'","tools":[],"model":"claude-sonnet-4-5","mcp_servers":[]}'
case "$*" in *--resume*)
    text "I count again from the reed bed."
    finish "Three herons at the pond, two in the reed bed."
    exit
    ;;
esac
case $prompt in *Wait*)
    text "I count the herons in the reed bed."
    exec sleep 1000
    ;;
esac
case $prompt in *Which*)
    say '{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","input":{"questions":[{"question":"Which database?","options":[]}]},"tool_use_id":"t1"}}'
    read -r answer
    case $answer in *sqlite*) finish "It is sqlite." ;; *) finish "I do not know." ;; esac
    exit
    ;;
esac
text "I read the list of birds first."
call t1 Read '{"file_path":"birds.txt"}'
returned t1 'grey heron\npurple heron\ngrey heron'
call t2 Bash '{"command":"touch counted"}'
say '{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"touch counted"},"tool_use_id":"t2"}}'
read -r answer
case $answer in *'"behavior":"allow"'*) touch counted && returned t2 '' ;; esac
text "Three herons: two grey ones and a purple one."
finish "Three herons: two grey ones and a purple one."
