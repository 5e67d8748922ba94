#!/bin/bash
# The programs that tests start. `tests/tools.sh` prints the Debian packages of missing ones; `tests/tools.sh
# install` installs them.
set -u
export PATH=$PATH:/usr/sbin:/sbin

tools='redis-server:redis-server chromium:chromium firefox-esr:firefox-esr haproxy:haproxy nginx:nginx-light openssl:openssl
  promtool:prometheus systemd-analyze:systemd lintian:lintian setpriv:util-linux ip:iproute2 python3:python3
  curl:curl caddy:caddy debootstrap:debootstrap systemd-nspawn:systemd-container slirp4netns:slirp4netns
  qemu-aarch64-static:qemu-user-static /usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1:libc6-arm64-cross
  zsh:zsh fish:fish git:git jq:jq fzf:fzf xmllint:libxml2-utils buku:buku php:php-cli
  rpm:rpm ssh-keygen:openssh-client shellcheck:shellcheck man:man-db ruby:ruby makepkg:makepkg
  pacman:pacman-package-manager bsdtar:libarchive-tools'

packages=()
# Debian has separate packages for these modules of Python and PHP.
python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
[ -e /usr/share/php/Shaarli/NetscapeBookmarkParser/autoload.php ] || packages+=(php-netscape-bookmark-parser)
for tool in $tools; do
  command -v "${tool%%:*}" >/dev/null || packages+=("${tool#*:}")
done
[ "${#packages[@]}" != 0 ] || exit 0
if [ "${1:-}" != install ]; then
  echo "${packages[*]}"
  exit
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || {
    echo "Root can install what is missing: apt-get install ${packages[*]}"
    exit 1
  }
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq &&
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
