# Completion of volery for fish. It asks volery itself, so it knows the agents and runs of the moment.
function __volery_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l typed (commandline -ct)
    test (count $typed) -eq 0; and set typed ''
    set -l found (volery __complete fish $words $typed 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path $typed
    end
end
complete -c volery -f -k -a '(__volery_complete)'
