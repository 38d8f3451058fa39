# Sourced by scripts/package, with $root, $work, $to, $version, $arch, $bill and $licences set, and an environment $work/here that has
# Bascule: makes the tree of a Debian package, and the package.
#
# One package is for all of Debian and Ubuntu that have one of these Pythons: modules that are compiled for one Python have its name in
# theirs, so those of several lie side by side in one folder, as in Debian's own. What is installed has the versions and hashes of
# requirements.lock, and comes as wheels; nothing is compiled here, so a package for another architecture is made on any machine.

PYTHONS="3.11 3.12 3.13 3.14"

share() { printf '%s' "$tree/usr/share/$1"; }

# The wheels' own names of $arch, the newest system that they may want first: Debian 12 has glibc 2.36.
platforms() {
    case $arch in
        amd64) machine=x86_64 ;;
        arm64) machine=aarch64 ;;
        *) say "there are no wheels for $arch"; return 1 ;;
    esac
    for tag in manylinux_2_28 manylinux_2_17 manylinux2014; do printf -- '--platform %s_%s ' "$tag" "$machine"; done
}

# Puts $1, an installation for one Python, over what is there: what both have must be the same. What tells of the installation itself goes,
# and so do bills that are made anew for each wheel.
put_together() {
    rm -rf "$1/bin" "$1"/*.dist-info/direct_url.json "$1"/*.dist-info/REQUESTED "$1"/*.dist-info/INSTALLER \
        "$1"/*.dist-info/RECORD "$1"/*.dist-info/WHEEL "$1"/*.dist-info/sboms
    (cd "$1" && find . -type f) | while read -r file; do
        if [ -e "$packages/$file" ] && ! cmp -s "$1/$file" "$packages/$file"; then
            say "$file differs between the wheels of two Pythons"
            exit 1
        fi
    done
    cp -R "$1/." "$packages/"
    rm -rf "$1"
}

environment() {
    home=$tree/usr/lib/bascule
    packages=$home/lib/python3/site-packages
    mkdir -p "$packages" "$home/bin"
    platforms=$(platforms)
    for built in "$work/wheel"/bascule-*.whl; do echo "$built --hash=sha256:$(sha256sum <"$built" | cut -d' ' -f1)"; done >"$work/own.lock"
    for minor in $PYTHONS; do
        say "installing what requirements.lock names for Python $minor on $arch"
        # shellcheck disable=SC2086 # several words
        pip install --no-compile --no-deps --only-binary :all: --implementation cp --python-version "$minor" $platforms \
            --target "$work/installed" --require-hashes -r "$root/requirements.lock" -r "$work/own.lock"
        rm -rf "$home/share"
        mv "$work/installed/share" "$home/share"
        put_together "$work/installed"
        ln -s python3 "$home/lib/python$minor"
    done
    find "$packages" -type f -exec chmod 644 {} +
    ln -s ../../../bin/python3 "$home/bin/python"
    printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$home/pyvenv.cfg"
    printf '#!/usr/lib/bascule/bin/python -P\nimport sys\n\nfrom supervisor.cli.__main__ import begin\n\nsys.exit(begin())\n' >"$home/bin/bascule"
    chmod 755 "$home/bin/bascule"
}

system_files() {
    debian=$root/packaging/debian
    install -D -m 644 "$debian/bascule.yaml" "$(share bascule/bascule.yaml)"
    install -D -m 640 "$debian/bascule.default" "$tree/etc/default/bascule"
    install -D -m 644 "$root/packaging/bascule.service" "$tree/usr/lib/systemd/system/bascule.service"
    install -D -m 644 "$debian/lintian-overrides" "$(share lintian/overrides/bascule)"
    mkdir -p "$tree/usr/bin"
    ln -s ../lib/bascule/bin/bascule "$tree/usr/bin/bascule"
    program='import sys; sys.argv[0] = "bascule"; from supervisor.cli.main import main; sys.exit(main())'
    mkdir -p "$(share bash-completion/completions)" "$(share zsh/vendor-completions)" "$(share fish/vendor_completions.d)" "$(share man/man1)"
    for shell in bash:bash-completion/completions/bascule zsh:zsh/vendor-completions/_bascule fish:fish/vendor_completions.d/bascule.fish; do
        _BASCULE_COMPLETE=${shell%%:*}_source "$work/here/bin/python" -P -c "$program" >"$(share "${shell#*:}")"
    done
    "$work/here/bin/python" "$root/scripts/documents/man_page.py" "$version" | gzip -9n >"$(share man/man1/bascule.1.gz)"
}

# The checkout's documents, laid as they are there, so that their links hold.
documents() {
    mkdir -p "$(share doc/bascule)"
    for page in README SECURITY CONTRIBUTING ARCHITECTURE CHANGELOG CODE_OF_CONDUCT; do
        [ ! -e "$root/$page.md" ] || cp "$root/$page.md" "$(share doc/bascule/)"
    done
    cp -R "$root/docs" "$(share doc/bascule/docs)"
    rm -rf "$(share doc/bascule/docs/site)" # the site's own programs
    printf 'bascule (%s) stable; urgency=medium\n\n  * CHANGELOG.md says what is new.\n\n -- %s  %s\n' "$version" \
        "$(sed -n 's/^Maintainer: //p' "$root/packaging/debian/control")" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" |
        gzip -9nc >"$(share doc/bascule/changelog.gz)"
    ln -s ../../../lib/bascule/share/bascule/configs "$(share doc/bascule/examples)"
    cp "$root/packaging/debian/copyright" "$(share doc/bascule/copyright)"
}

build_tree() {
    tree=$1
    rm -rf "$tree"
    environment
    system_files
    documents
    cp "$bill" "$(share doc/bascule/sbom.cdx.json)"
    cp "$licences" "$(share doc/bascule/third-party-licences.txt)"
    gzip -9n "$(share doc/bascule/third-party-licences.txt)"
    chmod -R u+rwX,go=rX "$tree/usr"
}

# What the binary modules need of the system: glibc at the newest version that one of them names, and the libraries that Debian has.
libraries() {
    found=$(find "$packages" -name '*.so*' -type f)
    # shellcheck disable=SC2086 # several files
    readelf -W -V $found | grep -o 'GLIBC_2[.0-9]*' | sort -Vu | tail -n 1 | sed 's/GLIBC_\(.*\)/libc6 (>= \1)/'
    bundled=$(cd "$packages" && find . -name '*.so*' -type f -exec basename {} \;)
    # shellcheck disable=SC2086
    for name in $(readelf -W -d $found | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u); do
        case $name in
            libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | ld-linux-*) ;;
            libstdc++.so.6) echo libstdc++6 ;;
            libgcc_s.so.1) echo libgcc-s1 ;;
            libz.so.1) echo zlib1g ;;
            *) printf '%s\n' "$bundled" | grep -qxF "$name" || { say "no Debian package is known for $name"; exit 1; } ;;
        esac
    done
}

build_deb() {
    tree=$1
    mkdir "$tree/DEBIAN"
    first=${PYTHONS%% *} last=${PYTHONS##* }
    depends="python3 (>= $first), python3 (<< ${last%.*}.$((${last#*.} + 1))), adduser, $(libraries | paste -sd, | sed 's/,/, /g')"
    sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$arch/" -e "s/@SIZE@/$(du -sk --apparent-size "$tree" | cut -f1)/" \
        -e "s/@DEPENDS@/$depends/" "$root/packaging/debian/control" >"$tree/DEBIAN/control"
    echo /etc/default/bascule >"$tree/DEBIAN/conffiles"
    echo "interest-noawait /usr/bin/python3" >"$tree/DEBIAN/triggers"
    for script in postinst prerm postrm; do install -m 755 "$root/packaging/debian/$script" "$tree/DEBIAN/$script"; done
    (cd "$tree" && find . -path ./DEBIAN -prune -o -path ./etc -prune -o -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum | sed 's| \./| |') \
        >"$tree/DEBIAN/md5sums"
    find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    deb_file=$to/bascule_${version}_$arch.deb
    say "building $deb_file"
    dpkg-deb --build --root-owner-group -Zxz "$tree" "$deb_file" >/dev/null
}
