# Types a line into a real interactive zsh, presses Tab once, and prints the candidates and what the line is then.
# Arguments: where the files of zsh are, the script under test, a file to write to, the line.
root=$1 script=$2 out=$3 line=$4
module_path=($root/usr/lib/*/zsh/*(N))
zmodload zsh/zpty || exit 90
setup=(
    "module_path=($root/usr/lib/*/zsh/*(N))"
    "fpath=($root/usr/share/zsh/functions/**/*(/))"
    'autoload -Uz compinit && compinit -u -D'
    "source ${(q)script}"
    "out=${(q)out}"
    'compadd() {
        local -a candidates
        # With -O, -A or -D it fills an array and adds nothing.
        if (( ! ${@[(I)-[OAD]]} )); then
            builtin compadd -A candidates "$@"
            print -rl -- $candidates >>$out
        fi
        builtin compadd "$@"
    }'
    'press_tab() { zle complete-word; print -r -- "line: $BUFFER" >>$out; exit }'
    'zle -N press_tab'
    'bindkey "^I" press_tab'
)
print -r -- "${(F)setup}" >$out.setup
: >$out
zpty shell "exec ${(q)root}/usr/bin/zsh -f -i"
zpty -w shell "source ${(q)out}.setup"
zpty -w -n shell "$line"$'\t'
# It ends after the key.
while zpty -r shell piece; do :; done
cat $out
