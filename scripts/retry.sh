# Functions that the setup scripts share; read with `source`, not run.

# Runs `COMMAND…` up to three times, with a pause that grows, and names the package when it waits or gives up. A registry may
# not answer for a moment, and a whole test run should not fail because of that.
#
#   retry PACKAGE COMMAND…
retry() {
    local package=$1 try pause
    shift
    for try in 1 2 3; do
        if "$@"; then return 0; fi
        if [ "$try" -eq 3 ]; then break; fi
        pause=$((try * try * 5))
        echo "$package: download failed, trying again in $pause s" >&2
        sleep "$pause"
    done
    echo "$package: download failed three times" >&2
    return 1
}

# Prints a digest of the pins given as arguments. A folder whose stamp holds the same digest needs no download.
digest_of() { printf '%s\n' "$@" | sha256sum | cut -d ' ' -f 1; }

# Tells whether a stamp file holds this digest.
is_installed() { [ -f "$2" ] && [ "$(cat "$2")" = "$1" ]; }
