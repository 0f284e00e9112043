# install.sh [--sbom NAME] PACKAGE...: installs Debian packages while an image is built, and removes what differs from
# one installation to the next. With $SNAPSHOT (20260918T000000Z) they are those that Debian had at that time, from
# snapshot.debian.org; else those of the base's own package sources. $SOURCE_DATE_EPOCH is read by useradd and sbom.py.
set -eu
export DEBIAN_FRONTEND=noninteractive PYTHONHASHSEED=0
sbom=
if [ "$1" = --sbom ]; then
  sbom=$2
  shift 2
fi
options=
if [ -n "${SNAPSHOT:-}" ]; then
  . /etc/os-release
  archive=http://snapshot.debian.org/archive
  # The signatures are checked; that a list of packages is old is what is wanted here.
  for part in "debian/$SNAPSHOT $VERSION_CODENAME" "debian/$SNAPSHOT $VERSION_CODENAME-updates" \
    "debian-security/$SNAPSHOT $VERSION_CODENAME-security"; do
    echo "deb [check-valid-until=no] $archive/$part main"
  done >/tmp/snapshot.list
  options="-o Dir::Etc::SourceList=/tmp/snapshot.list -o Dir::Etc::SourceParts=/dev/null"
fi
# shellcheck disable=SC2086  # several words
apt-get -q $options update
# shellcheck disable=SC2086
apt-get -q $options install -y --no-install-recommends "$@"
rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old \
  /tmp/snapshot.list
find /var/log -type f -delete
if [ -n "$sbom" ]; then
  mkdir -p /usr/share/cnibench
  python3 -I /context/sbom.py "$sbom" >/usr/share/cnibench/sbom.spdx.json
fi
