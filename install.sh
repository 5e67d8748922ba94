#!/bin/sh
# Installs a release of Sync Bridge, or removes it. See --help.
set -eu

name=sync-bridge
namespace=sync-bridge-release

usage() {
  cat <<END
Installs Sync Bridge from a release: the executable, its completions, manual pages and guides.

Usage: sh install.sh [--from PLACE] [--all] [--signers FILE | --unsigned]
       sh install.sh --uninstall [--all]

  --from PLACE    folder or address (https://, http://, file://) of the release; by default the folder of this file
  --all           for all users, in /usr/local, as root; by default for you alone, in ~/.local
  --signers FILE  whose signature to accept, instead of the signers that the release or the last installation names
  --unsigned      accept a release whose signature is missing or cannot be checked
  --uninstall     remove what was installed; your settings and accounts stay
END
}

fail() {
  printf '%s\n' "$*" >&2
  exit 1
}

main() {
  umask 022
  from='' signers='' is_signed=yes is_removal=no prefix=''
  while [ $# -gt 0 ]; do
    case $1 in
    --from | --signers)
      [ $# -gt 1 ] || fail "$1 needs a value: see sh install.sh --help"
      if [ "$1" = --from ]; then from=$2; else signers=$2; fi
      shift
      ;;
    --all) prefix=/usr/local ;;
    --unsigned) is_signed=no ;;
    --uninstall) is_removal=yes ;;
    --help | -h)
      usage
      exit
      ;;
    *) fail "Unknown argument \"$1\": see sh install.sh --help" ;;
    esac
    shift
  done
  if [ -z "$prefix" ]; then
    [ -n "${HOME:-}" ] || fail 'Cannot install for you alone: HOME is not set'
    prefix=$HOME/.local
  elif [ "$(id -u)" != 0 ]; then
    fail 'Cannot install for all users: only root can, so run this with sudo, or leave out --all'
  fi
  # Its lines list what was installed: "f FILE", and "d FOLDER" for a folder that did not exist before.
  list=$prefix/share/$name/installed
  if [ $is_removal = yes ]; then remove; else install_release; fi
}

install_release() {
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  if [ -z "$from" ]; then
    from=$(dirname "$0")
    [ -f "$from/SHA256SUMS" ] || fail 'Say where the release is: --from FOLDER or --from ADDRESS'
  fi
  platform=$(find_platform)
  get SHA256SUMS
  verify_signature
  archive=$(sed -nE "s/^[0-9a-f]{64}  ($name-[0-9A-Za-z.+]*-$platform\.gz)\$/\1/p" "$work/SHA256SUMS")
  share=$(sed -nE "s/^[0-9a-f]{64}  ($name-[0-9A-Za-z.+]*-share\.tar\.gz)\$/\1/p" "$work/SHA256SUMS")
  if [ -z "$archive" ] || [ -z "$share" ]; then fail "The release in \"$from\" has no executable for $platform"; fi
  get "$archive"
  get "$share"
  verify_sum "$archive"
  verify_sum "$share"

  mkdir -p "$work/new/bin" "$work/new/share"
  gzip -dc "$work/$archive" >"$work/new/bin/$name"
  chmod 755 "$work/new/bin/$name"
  gzip -dc "$work/$share" | tar -xof - -C "$work/new/share"
  version=$("$work/new/bin/$name" --version 2>"$work/reason") ||
    fail "The executable for $platform does not start here: $(cannot_start)"
  mkdir -p "$work/new/share/$name"
  # The next release must have the same signers.
  known=$prefix/share/$name/allowed_signers
  if [ -f "$work/allowed_signers" ]; then known=$work/allowed_signers; fi
  if [ -f "$known" ]; then cp "$known" "$work/new/share/$name/allowed_signers"; fi
  place
  echo "Installed $version in $prefix"
  case :$PATH: in *:"$prefix/bin":*) ;; *) echo "Add $prefix/bin to your PATH" ;; esac
}

find_platform() {
  case $(uname -m) in
  x86_64 | amd64) processor=x64 ;;
  aarch64 | arm64) processor=arm64 ;;
  *) fail "There is no executable for this processor, $(uname -m)" ;;
  esac
  case $(uname -s) in
  Linux)
    libc=$(find_libc)
    echo "linux-$processor$libc"
    ;;
  Darwin) echo "darwin-$processor" ;;
  *) fail "There is no executable for this system, $(uname -s)" ;;
  esac
}

find_libc() {
  if getconf GNU_LIBC_VERSION >/dev/null 2>&1; then return; fi
  for loader in /lib/ld-musl-*.so.1; do
    [ ! -e "$loader" ] || {
      echo -musl
      return
    }
  done
  for loader in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do
    [ ! -e "$loader" ] || return 0
  done
  fail 'Cannot find the C library of this system: neither glibc nor musl is there'
}

get() { # get NAME: fetches a file of the release
  case $from in
  http://* | https://*)
    if command -v curl >/dev/null; then
      curl -fsSL -o "$work/$1" "${from%/}/$1" 2>"$work/reason" || fail "Cannot get \"${from%/}/$1\": $(last_reason)"
    elif command -v wget >/dev/null; then
      wget -q -O "$work/$1" "${from%/}/$1" 2>"$work/reason" || fail "Cannot get \"${from%/}/$1\": $(last_reason)"
    else
      fail "Cannot get \"${from%/}/$1\": install curl or wget"
    fi
    ;;
  *)
    folder=${from#file://}
    cp "${folder%/}/$1" "$work/$1" 2>"$work/reason" || fail "Cannot read \"${folder%/}/$1\": is this the folder of a release?"
    ;;
  esac
}

last_reason() {
  reason=$(tail -1 "$work/reason")
  printf '%s' "${reason:-the server does not respond, or has no such file}"
}

cannot_start() {
  case $platform in
  *-musl) printf 'install libstdc++ and libgcc (apk add libstdc++ libgcc), or see: ' ;;
  esac
  last_reason
}

verify_signature() {
  [ $is_signed = yes ] || return 0
  grep -q '  allowed_signers$' "$work/SHA256SUMS" ||
    fail "The release in \"$from\" is unsigned: pass --unsigned if you trust where it is from"
  command -v ssh-keygen >/dev/null ||
    fail 'Cannot check the signature: install the OpenSSH client, which has ssh-keygen, or pass --unsigned'
  # The next release must be signed by the signers of the installed one.
  if [ -n "$signers" ]; then
    [ -f "$signers" ] || fail "Cannot read the signers: there is no file \"$signers\""
    cp "$signers" "$work/allowed_signers"
  elif [ -f "$prefix/share/$name/allowed_signers" ]; then
    cp "$prefix/share/$name/allowed_signers" "$work/allowed_signers"
  else
    get allowed_signers
  fi
  get SHA256SUMS.sig
  ssh-keygen -q -Y verify -f "$work/allowed_signers" -I $namespace -n $namespace -s "$work/SHA256SUMS.sig" \
    <"$work/SHA256SUMS" >/dev/null 2>&1 ||
    fail "The signature of the release in \"$from\" is not by its signers: do not install it"
}

verify_sum() {
  if command -v sha256sum >/dev/null; then
    sum=$(sha256sum <"$work/$1")
  elif command -v shasum >/dev/null; then
    sum=$(shasum -a 256 <"$work/$1")
  else
    fail 'Cannot check the files: install sha256sum or shasum'
  fi
  grep -qxF "${sum%% *}  $1" "$work/SHA256SUMS" || fail "\"$1\" is damaged: its checksum is not the one in SHA256SUMS"
}

place() { # moves the new files to where they belong, and removes those of the last version
  : >"$work/list"
  [ -d "$prefix" ] || echo "d $prefix" >>"$work/list"
  mkdir -p "$prefix" 2>/dev/null || fail "Cannot make the folder \"$prefix\""
  [ -w "$prefix" ] || fail "Cannot write to \"$prefix\""
  if [ -f "$list" ]; then sed -n '/^d /p' "$list" >>"$work/list"; fi
  (cd "$work/new" && find . -type d | sed 's|^\./||' | sort) >"$work/folders"
  while IFS= read -r folder; do
    [ ! -d "$prefix/$folder" ] || continue
    mkdir "$prefix/$folder"
    echo "d $prefix/$folder" >>"$work/list"
  done <"$work/folders"
  (cd "$work/new" && find . -type f | sed 's|^\./||') >"$work/files"
  while IFS= read -r file; do
    # Moving can replace a running executable.
    cp "$work/new/$file" "$prefix/$file.new"
    mv -f "$prefix/$file.new" "$prefix/$file"
    echo "f $prefix/$file" >>"$work/list"
  done <"$work/files"
  echo "f $list" >>"$work/list"
  if [ -f "$list" ]; then
    sed -n 's/^f //p' "$list" | while IFS= read -r file; do
      grep -qxF "f $file" "$work/list" || rm -f "$file"
    done
  fi
  cp "$work/list" "$list"
}

remove() {
  [ -f "$list" ] || fail "Nothing is installed in \"$prefix\""
  kept=$(cat "$list")
  printf '%s\n' "$kept" | sed -n 's/^f //p' | while IFS= read -r file; do rm -f "$file"; done
  # The innermost first; a folder that holds something else stays.
  printf '%s\n' "$kept" | sed -n 's/^d //p' | sort -r | while IFS= read -r folder; do
    rmdir "$folder" 2>/dev/null || true
  done
  echo "Removed $name from $prefix"
}

main "$@"
