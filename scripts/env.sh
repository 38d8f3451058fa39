# Sourced by the other scripts, with $root set to the checkout: gives them .venv, with what the lock file names and this checkout.
#
#   setup_env            what Bascule runs with (requirements.lock)
#   setup_env report     and what reports and exports need (requirements-report.lock)
#   setup_env analysis   and what the analysis with Spark needs (requirements-analysis.lock)
#   setup_env dev        and what the checks need (requirements-dev.lock)
#
# Each file that is installed has a hash in a lock file; what has to be built is built by what requirements-build.lock has.
#
# Says in one line what it does, and nothing when there is nothing to do. Needs Python 3.11 or newer; POSIX sh.

# Where this is set, and nothing has been compiled, each process compiles all that it imports anew.
unset PYTHONDONTWRITEBYTECODE

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# Runs a command that is only of interest where it fails: then all that it said comes, in its order.
quietly() {
    said_by=$(mktemp) || return 1
    "$@" </dev/null >"$said_by" 2>&1 && ended=0 || ended=$?
    [ "$ended" = 0 ] || { say "failed: $*"; cat "$said_by" >&2; }
    rm -f "$said_by"
    return "$ended"
}

as_root_with_apt() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; }

apt_install() {
    say "installing Debian packages: $*"
    quietly apt-get update -qq && quietly env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
}

# Whether there is a Java that Spark can run in.
java_is_here() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    "$java" -version 2>&1 | grep -Eq 'version "(1[7-9]|[2-9][0-9])'
}

# Prints the newest Python that is known to do and passes the test in $1.
find_python() {
    for python in python3.13 python3.12 python3.11 python3; do
        if "$python" -c "import sys; assert sys.version_info >= (3, 11); $1" >/dev/null 2>&1; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}

# Sets $python to one that can make .venv.
need_python() {
    python=$(find_python "import ensurepip, venv") || {
        if as_root_with_apt; then
            apt_install python3 python3-venv
            python=$(find_python "import ensurepip, venv") || { say "this system has no Python 3.11 or newer; install one"; return 1; }
        elif find_python "" >/dev/null; then
            say "Python's venv module is missing; install it, on Debian with: apt-get install python3-venv"
            return 1
        else
            say "Python 3.11 or newer is missing; install it, on Debian 12 with: apt-get install python3 python3-venv"
            return 1
        fi
    }
}

make_venv() {
    need_python || return 1
    rm -rf "$root/.venv"
    quietly "$python" -m venv "$root/.venv"
}

pip_install() { quietly "$root/.venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"; }

# What .venv depends on, with the lock file $1.
wanted() { echo "$(cat "$root/$1" "$root/requirements-build.lock" "$root/setup.cfg" "$root/pyproject.toml" | cksum) $root"; }

setup_env() {
    lock=requirements${1:+-$1}.lock
    stamp=$root/.venv/.bascule-installed
    exec 9<"$root" && flock 9 # two scripts at once: the second waits, then finds all done
    want=$(wanted "$lock")
    if [ -x "$root/.venv/bin/python" ] && "$root/.venv/bin/python" -c "" 2>/dev/null; then
        if [ -f "$stamp" ] && grep -qxF "$lock $want" "$stamp"; then
            exec 9<&-
            return 0
        fi
        say "updating .venv from $lock"
    else
        say "making .venv from $lock (the first time, a minute or two)"
        make_venv || return 1
    fi
    touch "$stamp"
    # A line stays only while it is true: the other lock may want other versions, unless it is part of this one.
    printf '' >"$stamp"
    pip_install --require-hashes -r "$root/requirements-build.lock" || return 1
    # Of what the checks need they import a fourth: that is compiled when they do.
    [ "$lock" = requirements-dev.lock ] && compiled=--no-compile || compiled=--compile
    pip_install --require-hashes --no-build-isolation --use-pep517 "$compiled" -r "$root/$lock" || return 1
    pip_install --no-deps --no-build-isolation --editable "$root" || return 1
    # What this lock file has, those that are part of it have too.
    case ${1:-} in
        dev) within="requirements-dev.lock requirements-analysis.lock requirements-report.lock requirements.lock" ;;
        analysis) within="requirements-analysis.lock requirements-report.lock requirements.lock" ;;
        report) within="requirements-report.lock requirements.lock" ;;
        *) within=requirements.lock ;;
    esac
    for part in $within; do
        echo "$part $(wanted "$part")" >>"$stamp"
    done
    exec 9<&-
}
