#!/usr/bin/env bash
# Turns the lab's control machine into a MAAS region with rack controller, and installs provision.
# Argument: this machine's address on the provisioning network. May be run again: each step looks first.
set -euo pipefail
address=${1:?usage: control.sh ADDRESS}
network=${address%.*}.0/24
export DEBIAN_FRONTEND=noninteractive

apt-get update -qq
apt-get install -y -qq python3-venv make git openssh-client sshpass jq

snap list maas >/dev/null 2>&1 || snap install maas --channel=3.6/stable
snap list maas-test-db >/dev/null 2>&1 || snap install maas-test-db --channel=3.6/stable
if ! maas status >/dev/null 2>&1; then
  maas init region+rack --database-uri maas-test-db:/// --maas-url "http://$address:5240/MAAS"
fi
install -d -m 0700 /etc/provision
if [ ! -s /etc/provision/maas-key ]; then
  password=$(openssl rand -base64 18)
  maas createadmin --username lab --password "$password" --email lab@localhost || true
  (umask 077 && maas apikey --username lab >/etc/provision/maas-key)
fi
maas login lab "http://$address:5240/MAAS" "$(cat /etc/provision/maas-key)" >/dev/null

# DHCP on the provisioning network only: find its fabric and VLAN by the subnet that MAAS discovered.
subnet=$(maas lab subnets read | jq -r --arg cidr "$network" '.[] | select(.cidr == $cidr) | .id')
fabric=$(maas lab subnet read "$subnet" | jq -r '.vlan.fabric_id')
vlan=$(maas lab subnet read "$subnet" | jq -r '.vlan.vid')
rack=$(maas lab rack-controllers read | jq -r '.[0].system_id')
if [ "$(maas lab vlan read "$fabric" "$vlan" | jq -r '.dhcp_on')" != true ]; then
  maas lab ipranges create type=dynamic start_ip="${address%.*}.100" end_ip="${address%.*}.200" >/dev/null
  maas lab subnet update "$subnet" gateway_ip="${address%.*}.1" dns_servers="$address" >/dev/null
  maas lab vlan update "$fabric" "$vlan" dhcp_on=true primary_rack="$rack" >/dev/null
fi
maas lab boot-resources import >/dev/null

cd /vagrant
python3 -m venv /opt/provision
/opt/provision/bin/pip install --quiet --require-hashes -r requirements.txt
/opt/provision/bin/pip install --quiet --no-deps .
ln -sf /opt/provision/bin/provision /usr/local/bin/provision
[ -s /etc/provision/ssh-key ] || ssh-keygen -q -t ed25519 -N "" -f /etc/provision/ssh-key

echo "MAAS: http://$address:5240/MAAS (user lab). Images are being imported: maas lab boot-resources is-importing"
echo "Next: docs/how-to/lab.md, step 2"
