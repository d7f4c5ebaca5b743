# shellcheck shell=bash
# What the scripts here share: where things lie, how they speak, how they install.
# Sourced, never run. Everything is written below TOOLS_DIR (default: .tools in
# the repository), so that several work trees can share one set of tools.

REPO="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
TOOLS_DIR="${TOOLS_DIR:-$REPO/.tools}"
STAMPS="$TOOLS_DIR/stamps"

# say LABEL TEXT…: one aligned line of progress.
say() { printf '%-12s %s\n' "$1" "${*:2}"; }

# warn TEXT…: the same on standard error.
warn() { printf 'warning: %s\n' "$*" >&2; }

# have COMMAND: is it on the PATH?
have() { command -v "$1" >/dev/null 2>&1; }

# in_ci: does the caller promise a machine where nothing may be missing?
in_ci() { [[ "${CI:-}" == true || "${CI:-}" == 1 ]]; }

# rank STATUS: how bad an exit code of loadgen is, as `Exit::and` (loadgen/src/exit.rs, whose test runs this) ranks them.
# Any other is worse: a program that panicked (101) or was killed (137) has not said how its run ended.
rank() {
    case "$1" in
    0) echo 0 ;;
    3) echo 1 ;;
    2) echo 2 ;;
    1) echo 3 ;;
    4) echo 4 ;;
    130) echo 5 ;;
    *) echo 6 ;;
    esac
}

# worse STATUS STATUS: the worse of two exit codes.
worse() {
    if (($(rank "$2") > $(rank "$1"))); then echo "$2"; else echo "$1"; fi
}

# as_root COMMAND…: run it as root, or fail saying why that cannot be.
as_root() {
    if [[ "$(id -u)" -eq 0 ]]; then
        "$@"
    elif have sudo && sudo -n true 2>/dev/null; then
        sudo -n "$@"
    else
        warn "needs root or password-less sudo: $*"
        return 1
    fi
}

# Package lists are refreshed at most once per run: bare machines come without any.
apt_lists() {
    have apt-get || { warn "no apt-get here: this step knows only Debian's packages"; return 1; }
    if [[ -z "${APT_LISTS_FRESH:-}" ]]; then
        as_root apt-get update -qq >/dev/null 2>&1 || warn "apt-get update failed; trying with the lists at hand"
        APT_LISTS_FRESH=1
    fi
}

# apt_install PACKAGE…: from Debian, quietly, without asking.
apt_install() {
    apt_lists || return 1
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq -o DPkg::Lock::Timeout=300 --no-install-recommends "$@" >/dev/null 2>"$TOOLS_DIR/apt.log" || {
        tail -n 3 "$TOOLS_DIR/apt.log" >&2
        return 1
    }
}

# fingerprint FILE…: changes when the files do, so that a rebuild follows a version change.
fingerprint() { cat "$@" | sha256sum | cut -c1-16; }

# fresh NAME FINGERPRINT: is NAME installed and made from just this?
fresh() {
    [[ -x "$TOOLS_DIR/bin/$1" && -f "$STAMPS/$1" ]] && [[ "$(head -n 1 "$STAMPS/$1")" == "$2" ]]
}

# stamp NAME FINGERPRINT VERSION: remember what was installed; asking the programs
# themselves would cost more than a second in all.
stamp() { printf '%s\n%s\n' "$2" "$3" >"$STAMPS/$1"; }

# stamped NAME: the version that `stamp` remembered.
stamped() { sed -n 2p "$STAMPS/$1"; }

# go_build NAME MODULE-FOLDER PACKAGE: build one program of a committed Go module.
# The module's go.mod and go.sum pin everything; a newer toolchain is never fetched. GO_LDFLAGS
# are for the linker, too.
go_build() {
    local name="$1" folder="$2" package="$3"
    (cd "$folder" && GOTOOLCHAIN=local GOWORK=off GOFLAGS=-mod=readonly CGO_ENABLED=0 \
        go build -trimpath -buildvcs=false -ldflags "-s -w ${GO_LDFLAGS:-}" -o "$TOOLS_DIR/bin/.$name.new" "$package") &&
        mv -f "$TOOLS_DIR/bin/.$name.new" "$TOOLS_DIR/bin/$name"
}

# lock_tools: one installer at a time in one TOOLS_DIR; released when the script ends.
lock_tools() {
    mkdir -p "$TOOLS_DIR/bin" "$STAMPS"
    if have flock; then
        exec 9>"$TOOLS_DIR/lock"
        flock 9
    fi
}
