#!/usr/bin/env bash
# The lab's BMCs, on the workstation itself: one sushy-emulator (Redfish over HTTPS) per machine, in front of libvirt.
#   lab/bmcs.sh start   make venv, certificate and password once, then start one emulator per machine
#   lab/bmcs.sh stop    end them
#   lab/bmcs.sh break   pull the network cable of the last machine (libvirt sets its link down)
#   lab/bmcs.sh mend    put it back
set -euo pipefail
cd "$(dirname "$0")/.."
nodes=${LAB_NODES:-3}
address=${LAB_HOST:-10.77.0.1}
state=.vagrant/bmcs
uri=${LAB_LIBVIRT:-qemu:///system}

mac() { printf '52:54:00:77:%02x:%02x' $(($1 / 256)) $(($1 % 256)); }

prepare() {
  install -d -m 0700 "$state"
  if [ ! -x "$state/venv/bin/sushy-emulator" ]; then
    python3 -m venv "$state/venv"
    # libvirt-python is built against the libvirt that is installed: libvirt-dev, pkg-config and gcc are needed.
    "$state/venv/bin/pip" install --quiet "sushy-tools==2.2.0" "bcrypt>=4" "libvirt-python==$(virsh --version)"
  fi
  if [ ! -s "$state/tls.key" ]; then
    openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=lab-bmc" -addext "subjectAltName=IP:$address" \
      -keyout "$state/tls.key" -out "$state/tls.crt" 2>/dev/null
  fi
  if [ ! -s "$state/password" ]; then
    (umask 077 && openssl rand -base64 18 >"$state/password")
    "$state/venv/bin/python" - "$state" <<'PY'
import pathlib, sys
import bcrypt
state = pathlib.Path(sys.argv[1])
secret = (state / "password").read_text().strip().encode()
(state / "htpasswd").write_text("lab:" + bcrypt.hashpw(secret, bcrypt.gensalt()).decode() + "\n")
PY
  fi
}

start() {
  prepare
  for number in $(seq "$nodes"); do
    if [ -s "$state/$number.pid" ] && kill -0 "$(cat "$state/$number.pid")" 2>/dev/null; then
      continue
    fi
    uuid=$(virsh -c "$uri" domuuid "lab-node-$number" | tr -d '[:space:]')
    cat >"$state/$number.conf" <<CONF
SUSHY_EMULATOR_LISTEN_IP = "$address"
SUSHY_EMULATOR_LISTEN_PORT = $((8000 + number))
SUSHY_EMULATOR_SSL_CERT = "$PWD/$state/tls.crt"
SUSHY_EMULATOR_SSL_KEY = "$PWD/$state/tls.key"
SUSHY_EMULATOR_AUTH_FILE = "$PWD/$state/htpasswd"
SUSHY_EMULATOR_LIBVIRT_URI = "$uri"
SUSHY_EMULATOR_ALLOWED_INSTANCES = ["$uuid"]
CONF
    "$state/venv/bin/sushy-emulator" --config "$PWD/$state/$number.conf" >"$state/$number.log" 2>&1 &
    echo $! >"$state/$number.pid"
    echo "node-$number: https://$address:$((8000 + number)) (user lab)"
  done
  vagrant ssh control -c "sudo install -m 0600 /dev/stdin /etc/provision/bmc-password" <"$state/password"
}

stop() {
  for number in $(seq "$nodes"); do
    [ -s "$state/$number.pid" ] || continue
    kill "$(cat "$state/$number.pid")" 2>/dev/null || true
    rm -f "$state/$number.pid"
  done
}

cable() {
  virsh -c "$uri" domif-setlink "lab-node-$nodes" "$(mac "$nodes")" "$1"
  virsh -c "$uri" domif-setlink "lab-node-$nodes" "$(mac "$nodes")" "$1" --config
}

case ${1:-} in
  start) start ;;
  stop) stop ;;
  break) cable down ;;
  mend) cable up ;;
  *) sed -n '2,6p' "$0"; exit 2 ;;
esac
