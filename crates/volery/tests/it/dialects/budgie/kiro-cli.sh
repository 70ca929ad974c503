#!/bin/sh
[ "$*" = --version ] && echo kiro-cli 2.3.0 && exit
# Stands in for `kiro-cli chat`: notes how it was called, and does what its prompt says. `once` means the first time.
for prompt; do :; done
{
    printf 'cwd=%s\n' "$PWD"
    for word; do printf 'arg=%s\n' "$word"; done
    [ -z "$KIRO_HOME" ] || cat "$KIRO_HOME"/agents/*.json
    printf '\n--\n'
} >>"$HOME/calls"
first() { mkdir "$HOME/$1-once" 2>/dev/null; }
# Submits an answer with the tool of the server that the file `submit-server` names.
submit() {
    {
        echo '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}}}'
        echo '{"jsonrpc":"2.0","method":"notifications/initialized"}'
        echo '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"submit_result","arguments":{"result":"the answer"}}}'
    } | sh "$HOME/submit-server" >/dev/null
}
case $prompt in
*submit-and-crash*) submit; exit 7 ;;
*crash-once*) if first crash; then exit 7; fi ;;
*signal-once*) if first signal; then kill -KILL $$; fi ;;
*bare-crash*) echo 'half an answer'; exit 7 ;;
*crash*) echo 'half an answer'; echo 'it broke' >&2; exit 7 ;;
*hang-once*) if first hang; then exec sleep 600; fi ;;
*hang*) echo 'half an answer'; exec sleep 600 ;;
*mute*) exit ;;
*uncredited*) echo 'just words'; exit ;;
*gate*) while [ ! -e "$HOME/go" ]; do sleep 0.02; done ;;
esac
printf '\033[38;5;141m> \033[0mdone: %s\n' "$prompt"
printf '\342\226\270 Credits: 0.04\n' >&2
