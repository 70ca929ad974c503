#compdef volery
# Completion of volery for zsh. It asks volery itself, so it knows the agents and runs of the moment.
_volery() {
    local -a found
    found=("${(@f)$(volery __complete zsh "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    if (( ${#found} )); then
        _describe 'volery' found
    else
        _files
    fi
}
if [ "$funcstack[1]" = "_volery" ]; then
    _volery "$@"
else
    compdef _volery volery
fi
