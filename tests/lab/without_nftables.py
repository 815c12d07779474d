"""A host as ScyllaDB's images were before 2026.2: without nftables, which a repository has.

As hosts of a lab have no way to Debian's, it is one of the host's own.
"""

PURGE = """
set -eu
root=$(mktemp -d); chmod 755 "$root"; mkdir -p "$root/DEBIAN" /srv/packages
control='Package: nftables
Version: ${Version}
Architecture: ${Architecture}
Maintainer: ${Maintainer}
Depends: ${Depends}
Description: packed again by a test
'
dpkg-query --show --showformat "$control" nftables > "$root/DEBIAN/control"
dpkg --listfiles nftables | while read -r path; do [ -d "$path" ] || echo "$path"; done \\
  | tar --create --absolute-names --ignore-failed-read --files-from - \\
  | tar --extract --directory "$root"
dpkg-deb --root-owner-group --build "$root" /srv/packages/nftables.deb
cd /srv/packages
{ dpkg-deb --field nftables.deb; echo "Filename: ./nftables.deb"
  echo "Size: $(stat -c %s nftables.deb)"
  echo "SHA256: $(sha256sum nftables.deb | cut -d ' ' -f 1)"; } > Packages
dpkg --purge nftables
"""
"""Takes the package from a host, into a folder that `SOURCE` names. For root's shell."""

LIST = "/etc/apt/sources.list.d/own.list"
SOURCE = "deb [trusted=yes] file:/srv/packages ./\n"
"""The package repository that the folder is, and the file that has to name it."""
