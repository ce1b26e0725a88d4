#!/bin/sh
# Installs the release that contains this script as /opt/nutpost/<version>, selects it, and restarts the service if it
# runs. If a step fails, or the new version does not start, the version that was selected before stays. Run it as root
# from the unpacked npm package. /opt/nutpost/<version>/deploy/systemd/install.sh selects an installed version again. See
# docs/operations/deployment.md and docs/operations/upgrades.md.
set -eu
umask 022

root=/opt/nutpost
settings=/etc/nutpost/nutpost.env
cd "$(dirname "$0")/../.."
version=$(cat dist/version)

if ! id nutpost >/dev/null 2>&1; then
  useradd --system --user-group --home-dir /var/lib/nutpost --no-create-home --shell /usr/sbin/nologin nutpost
fi

if [ ! -e $settings ]; then
  install -d -g nutpost -m 750 "$(dirname $settings)"
  install -g nutpost -m 640 .env.example $settings
  sed -i 's|^#DATA_DIR=.*|DATA_DIR=/var/lib/nutpost|; s|^DEFAULT_MINT_URL=|#&|' $settings
fi

# With this file, the installation is complete.
if [ ! -e "$root/$version/.installed" ]; then
  rm -rf "${root:?}/$version"
  mkdir -p "$root/$version"
  cp -R . "$root/$version"
  cd "$root/$version"
  chown -R root: .
  # Stores compiled code, which halves the start time.
  install -d -o nutpost node_modules/.cache
  runuser -u nutpost -- node bin/nutpost.js --version
  # The network thread starts after the service has changed an option of V8, so its cache is another one.
  runuser -u nutpost -- env NODE_COMPILE_CACHE=node_modules/.cache/nutpost \
    node --heap-growing-percent=50 dist/src/net/network-thread-worker.js
  chown -R root: node_modules/.cache
  chmod -R a+rX .
  touch .installed
fi

select_version() {
  install -m 644 "$root/$1/deploy/systemd/"*.service "$root/$1/deploy/systemd/"*.timer /etc/systemd/system/
  install -m 755 "$root/$1/deploy/systemd/nutpost" /usr/local/bin/
  # A rename, so that the link always exists.
  ln -sfn "$1" $root/next
  mv -T $root/next $root/current
  systemctl daemon-reload
}

is_ready() {
  # shellcheck disable=SC2046
  env $(grep -E '^(HOST|PORT)=' $settings | tr -d \'\") node $root/current/bin/healthcheck.js >/dev/null 2>&1
}

count_restarts() {
  systemctl show --property=NRestarts --value nutpost
}

# Fails if the service exits, which systemd then restarts. Migrations of large tables may take minutes.
restart_service() {
  systemctl restart nutpost || return 1
  restarts=$(count_restarts)
  echo "Waiting until nutpost $version is ready"
  until is_ready; do
    sleep 1
    [ "$(count_restarts)" = "$restarts" ] || return 1
  done
}

previous=$(readlink $root/current || true)
select_version "$version"
if ! systemctl is-active --quiet nutpost; then
  echo "Installed nutpost $version. Edit $settings, and start it with: systemctl enable --now nutpost"
elif restart_service; then
  echo "nutpost $version runs."
else
  select_version "$previous"
  systemctl restart nutpost
  echo "nutpost $version does not start, so $previous runs again. See: journalctl -u nutpost" >&2
  exit 1
fi
