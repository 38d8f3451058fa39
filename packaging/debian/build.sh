# Sourced by scripts/package, with $root, $work, $to, $version and $python set: the tree of the Debian package, and the package.
#
# The tree is made by hand, as dh-virtualenv would: an environment in /opt/bascule that runs with the system's Python, whose minor version it
# therefore depends on. Bytecode is part of it, so nothing is compiled or left behind on the machine.

share() { printf '%s' "$tree/usr/share/$1"; }

environment() {
    minor=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    home=$tree/opt/bascule
    packages=$home/lib/python$minor/site-packages
    mkdir -p "$packages" "$home/bin"
    say "installing what requirements.lock names for Python $minor"
    for built in "$work/wheel"/bascule-*.whl; do echo "$built --hash=sha256:$(sha256sum <"$built" | cut -d' ' -f1)"; done >"$work/own.lock"
    "$work/venv/bin/python" -m pip install --quiet --no-compile --no-deps --only-binary :all: --target "$work/installed" \
        --require-hashes -r "$root/requirements.lock" -r "$work/own.lock"
    mv "$work/installed/share" "$home/share"
    rm -rf "$work/installed/bin" "$work/installed"/*.dist-info/direct_url.json "$work/installed"/*.dist-info/REQUESTED
    mv "$work/installed"/* "$packages/"
    ln -s "/usr/bin/python$minor" "$home/bin/python"
    printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$home/pyvenv.cfg"
    printf '#!/opt/bascule/bin/python -P\nimport sys\n\nfrom supervisor.cli.__main__ import begin\n\nsys.exit(begin())\n' >"$home/bin/bascule"
    chmod 755 "$home/bin/bascule"
    "$work/venv/bin/python" -m compileall -q -j 0 --invalidation-mode unchecked-hash -s "$tree" -p / "$packages"
}

system_files() {
    debian=$root/packaging/debian
    install -D -m 644 "$debian/bascule.yaml" "$tree/etc/bascule/bascule.yaml"
    install -D -m 640 "$debian/bascule.default" "$tree/etc/default/bascule"
    install -D -m 644 "$root/packaging/bascule.service" "$tree/lib/systemd/system/bascule.service"
    install -d -m 750 "$tree/var/lib/bascule"
    mkdir -p "$tree/usr/bin"
    ln -s /opt/bascule/bin/bascule "$tree/usr/bin/bascule"
    program='import sys; sys.argv[0] = "bascule"; from supervisor.cli.main import main; sys.exit(main())'
    mkdir -p "$(share bash-completion/completions)" "$(share zsh/vendor-completions)" "$(share fish/vendor_completions.d)" "$(share man/man1)"
    for shell in bash:bash-completion/completions/bascule zsh:zsh/vendor-completions/_bascule fish:fish/vendor_completions.d/bascule.fish; do
        PYTHONPATH=$packages _BASCULE_COMPLETE=${shell%%:*}_source "$work/venv/bin/python" -P -c "$program" >"$(share "${shell#*:}")"
    done
    PYTHONPATH=$packages "$work/venv/bin/python" "$root/scripts/documents/man_page.py" "$version" | gzip -9n >"$(share man/man1/bascule.1.gz)"
}

documents() {
    mkdir -p "$(share doc/bascule)"
    cp "$root/README.md" "$root/SECURITY.md" "$(share doc/bascule/)"
    cp -R "$root/docs/guides" "$root/docs/reference" "$(share doc/bascule/)"
    gzip -9nc "$root/CHANGELOG.md" >"$(share doc/bascule/changelog.gz)"
    ln -s /opt/bascule/share/bascule/configs "$(share doc/bascule/examples)"
    {
        echo "Bascule is licensed under the Apache License 2.0 (/usr/share/common-licenses/Apache-2.0)."
        echo "The libraries in /opt/bascule have licences of their own, each in its .dist-info folder; sbom.cdx.json lists all."
    } >"$(share doc/bascule/copyright)"
}

bill_of_materials() {
    say "listing the libraries and their licences"
    "$python" -m venv "$work/audit"
    "$work/audit/bin/python" -m pip install --quiet --require-hashes -r "$root/requirements-audit.lock"
    PYTHONDONTWRITEBYTECODE=1 "$work/audit/bin/cyclonedx-py" environment --output-reproducible --gather-license-texts \
        --output-file "$(share doc/bascule/sbom.cdx.json)" "$home/bin/python"
}

build_tree() {
    tree=$1
    environment
    system_files
    documents
    bill_of_materials
}

# What the binary modules need of the system, as dpkg-shlibdeps finds it.
libraries() {
    mkdir -p "$work/shlibs/debian"
    echo "Source: bascule" >"$work/shlibs/debian/control"
    found=$(find "$packages" -name '*.so*' -type f)
    # shellcheck disable=SC2086 # several files
    (cd "$work/shlibs" && dpkg-shlibdeps -O --ignore-missing-info $(printf -- '-l%s ' "$packages"/*.libs) $found 2>/dev/null) | sed -n 's/^shlibs:Depends=//p'
}

build_deb() {
    tree=$1
    arch=$(dpkg --print-architecture)
    next="${minor%.*}.$((${minor#*.} + 1))"
    mkdir "$tree/DEBIAN"
    sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$arch/" -e "s/@SIZE@/$(du -sk "$tree" | cut -f1)/" \
        -e "s/@DEPENDS@/python3 (>= $minor), python3 (<< $next), adduser, $(libraries)/" "$root/packaging/debian/control" >"$tree/DEBIAN/control"
    printf '/etc/bascule/bascule.yaml\n/etc/default/bascule\n' >"$tree/DEBIAN/conffiles"
    for script in postinst prerm postrm; do install -m 755 "$root/packaging/debian/$script" "$tree/DEBIAN/$script"; done
    (cd "$tree" && find . -path ./DEBIAN -prune -o -type f -print0 | sort -z | xargs -0 md5sum | sed 's| \./| |') >"$tree/DEBIAN/md5sums"
    deb_file=$to/bascule_${version}_$arch.deb
    say "building $deb_file"
    dpkg-deb --build --root-owner-group -Zxz "$tree" "$deb_file" >/dev/null
}
