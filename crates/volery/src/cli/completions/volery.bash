# Completion of volery for bash. It asks volery itself, so it knows the agents and runs of the moment.
_volery() {
    local word glue='' split
    local -a words=()
    # Bash also splits words at : and =, which are part of agents' names and of --option=value.
    for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
        if [[ ${#words[@]} -gt 0 && ( -n $glue || $word == [:=] || $word == :: ) ]]; then
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        glue=''
        [[ $word == [:=] || $word == :: ]] && glue=1
    done
    # Without a word after the name of the program there is nothing to complete.
    (( ${#words[@]} > 0 )) || { COMPREPLY=(); return; }
    mapfile -t COMPREPLY < <(volery __complete bash "${words[@]}" 2>/dev/null)
    # Bash replaces only what follows the last split.
    word=${words[${#words[@]} - 1]}
    split=${word%"${word##*[:=]}"}
    COMPREPLY=("${COMPREPLY[@]#"$split"}")
}
complete -o bashdefault -o default -F _volery volery
