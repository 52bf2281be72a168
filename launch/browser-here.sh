#!/usr/bin/env bash
# Prints the command of a Chromium without a screen, for tests of the pages of `hpcml report`.
# It is that of HPCML_BROWSER, or an installed one, else Debian's packages are unpacked into a folder; nothing is installed.
# Exit code 3 and a message: there is no browser.
# HPCML_BROWSER_FOLDER: the folder for the packages; default /tmp/hpcml-browser-USERID.
set -euo pipefail

STATE=${HPCML_BROWSER_FOLDER:-/tmp/hpcml-browser-$UID}
PACKAGES=(chromium-headless-shell fontconfig-config fonts-dejavu-core)

cannot() { printf 'browser-here: no browser: %s\n' "$*" >&2; exit 3; }

if [[ -n ${HPCML_BROWSER:-} ]]; then
  command -v "$HPCML_BROWSER" || cannot "HPCML_BROWSER=$HPCML_BROWSER is not a program"
  exit
fi
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
  if command -v "$name"; then exit; fi
done

browser=$STATE/browser
if [[ ! -f $STATE/complete ]] && command -v flock >/dev/null; then  # tests that run at the same time fetch it once
  [[ ! -L $STATE.lock ]] || cannot "$STATE.lock is a link; remove it"
  exec 9>>"$STATE.lock" && flock 9
fi
if [[ ! -f $STATE/complete ]]; then
  [[ $(uname -s) == Linux ]] || cannot "no Chromium is installed, and packages can be fetched only on Linux"
  command -v apt-get dpkg >/dev/null || cannot "no Chromium is installed, and there is no apt"
  [[ ! -e $STATE || (-d $STATE && ! -L $STATE && -O $STATE && -f $STATE/.browser-here) ]] ||
    cannot "$STATE has other files or another owner; set HPCML_BROWSER_FOLDER to a new folder"
  rm -rf "$STATE" && mkdir -m 700 "$STATE" && touch "$STATE/.browser-here"
  apt=(-qq -o "Dir::State=$STATE/apt" -o Dir::State::status=/var/lib/dpkg/status -o "Dir::Cache=$STATE/cache"
    -o Debug::NoLocking=1 -o "APT::Sandbox::User=$(id -un)" -o Acquire::Retries=3)
  mkdir -p "$STATE"/apt/lists/partial "$STATE"/cache/archives/partial
  { apt-get "${apt[@]}" update && apt-get "${apt[@]}" install --yes --no-install-recommends --download-only "${PACKAGES[@]}"; } \
    >"$STATE/apt.log" 2>&1 </dev/null || cannot "apt cannot fetch ${PACKAGES[*]}: $(tail -n 1 "$STATE/apt.log")"
  for deb in "$STATE"/cache/archives/*.deb; do dpkg -x "$deb" "$STATE/software"; done
  rm -rf "$STATE/cache" "$STATE/apt"
  program=$(find "$STATE/software/usr" -name chromium-headless-shell -type f -perm -u+x -size +1M | head -n 1)
  [[ -n $program ]] || cannot "the package chromium-headless-shell has no such program"
  libraries=$(find "$STATE/software" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
  mkdir "$STATE/cached"
  cat >"$STATE/fonts.conf" <<END
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>$STATE/software/usr/share/fonts</dir><dir>/usr/share/fonts</dir><cachedir>$STATE/cached</cachedir>
<alias><family>sans-serif</family><prefer><family>DejaVu Sans</family></prefer></alias>
<alias><family>system-ui</family><prefer><family>DejaVu Sans</family></prefer></alias></fontconfig>
END
  cat >"$browser" <<END
#!/usr/bin/env bash
LD_LIBRARY_PATH='$libraries'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} FONTCONFIG_FILE='$STATE/fonts.conf' exec '$program' "\$@"
END
  chmod +x "$browser"
  touch "$STATE/complete"
fi
printf '%s\n' "$browser"
