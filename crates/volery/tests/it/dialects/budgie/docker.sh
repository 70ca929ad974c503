#!/bin/sh
# Stands in for docker: notes how it was called, and does what the program in the container would.
{ for word; do printf 'arg=%s\n' "$word"; done; printf '\n--\n'; } >>"$HOME/docker-calls"
case $1 in
info) [ ! -e "$HOME/docker-is-broken" ] || { echo 'Cannot connect to the Docker daemon' >&2; exit 1; } ;;
run)
    for prompt; do :; done
    case $prompt in *hang*) trap '' TERM; while :; do sleep 1; done ;; esac
    printf '> contained: %s\n' "$prompt"
    printf '\342\226\270 Credits: 0.04\n' >&2 ;;
esac
