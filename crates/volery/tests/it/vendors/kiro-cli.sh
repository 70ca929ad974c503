#!/bin/sh
[ "$*" = --version ] && echo kiro-cli 2.3.0 && exit
# Stands in for `kiro-cli acp`.
say() { printf '%s\n' "$1"; }
update() { say "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"k-1\",\"update\":$1}}"; }
while IFS= read -r line; do
    printf '%s\n' "$line" >>heard.jsonl
    case $line in
    *'"method":"initialize"'*)
        say '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true}}}}' ;;
    *'"method":"session/new"'*)
        say '{"jsonrpc":"2.0","method":"_kiro.dev/metadata","params":{"contextUsagePercentage":1.5}}'
        say '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"k-1","modes":{"currentModeId":"kiro_default","availableModes":[{"id":"kiro_default","name":"kiro_default"}]},"models":{"currentModelId":"auto","availableModels":[]}}}' ;;
    *'"method":"session/set_model"'*) say '{"jsonrpc":"2.0","id":3,"result":{}}' ;;
    *'"method":"session/prompt"'*Wait.*) ;;
    *'"method":"session/prompt"'*)
        update '{"sessionUpdate":"tool_call","toolCallId":"t-1","title":"execute_bash","kind":"execute","rawInput":{"command":"touch made"}}'
        say '{"jsonrpc":"2.0","id":9,"method":"session/request_permission","params":{"sessionId":"k-1","toolCall":{"toolCallId":"t-1"},"options":[{"optionId":"allow_once","name":"Yes","kind":"allow_once"},{"optionId":"reject_once","name":"No","kind":"reject_once"}]}}' ;;
    *'"id":9'*)
        case $line in
        *allow_once*) said=yes status=completed ;;
        *) said=no status=failed ;;
        esac
        update "{\"sessionUpdate\":\"tool_call_update\",\"toolCallId\":\"t-1\",\"status\":\"$status\"}"
        update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"It was $said.\"}}"
        say '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}' ;;
    esac
done
exec sleep 600
