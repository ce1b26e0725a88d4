#!/bin/sh
# Installs the current commit of this clone as /opt/nutpost/<version>, and selects it for the next start of the service.
# If a step fails, the version that was selected before stays. Run it as root. See docs/operations/deployment.md.
set -eu
umask 022

cd "$(dirname "$0")/../.."
version=$(node -p 'require("./package.json").version')-g$(git rev-parse --short HEAD)
installation=/opt/nutpost/$version

if ! id nutpost >/dev/null 2>&1; then
  useradd --system --user-group --home-dir /var/lib/nutpost --no-create-home --shell /usr/sbin/nologin nutpost
fi

# With this file, the installation is complete.
if [ ! -e "$installation/.installed" ]; then
  rm -rf "$installation"
  mkdir -p "$installation"
  git archive HEAD | tar -x -C "$installation"
  cd "$installation"
  npm pkg set version="$version"
  npm ci
  npm run build
  npm prune --omit=dev --omit=optional
  # Stores compiled code, which halves the start time.
  install -d -o nutpost node_modules/.cache
  runuser -u nutpost -- node bin/nutpost.js --version
  # The network thread starts after the service has changed an option of V8, so its cache is another one.
  runuser -u nutpost -- env NODE_COMPILE_CACHE=node_modules/.cache/nutpost \
    node --heap-growing-percent=50 src/net/network-thread-worker.ts
  chown -R root: node_modules/.cache
  chmod -R a+rX .
  touch .installed
fi

install -m 644 "$installation/deploy/systemd/nutpost.service" /etc/systemd/system/
install -m 755 "$installation/deploy/systemd/nutpost" /usr/local/bin/
# A rename, so that the link always exists.
ln -sfn "$version" /opt/nutpost/next
mv -T /opt/nutpost/next /opt/nutpost/current
systemctl daemon-reload
echo "Installed nutpost $version. Start it with: systemctl restart nutpost"
