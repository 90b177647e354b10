"""How a host is reached, read from the variable that Ansible itself reads."""

from __future__ import annotations

import pytest

from provision.config.complaints import Complaints
from provision.config.hostvars import parse_host
from provision.config.sshproxy import proxy_of

WAY = "ssh -F none -o BatchMode=yes"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("-J ops@bastion", f"{WAY} -W '[%h]:%p' ssh://ops@bastion"),
        ("-Jbastion", f"{WAY} -W '[%h]:%p' ssh://bastion"),
        ("-o ProxyJump=bastion:2222 -o ForwardAgent=no", f"{WAY} -W '[%h]:%p' ssh://bastion:2222"),
        ("-oProxyJump=a,ops@b", f"{WAY} -J a -W '[%h]:%p' ssh://ops@b"),
        ("-o 'ProxyJump ssh://ops@bastion:22'", f"{WAY} -W '[%h]:%p' ssh://ops@bastion:22"),
        ('-o ProxyCommand="ssh -i /k -W %h:%p bastion"', "ssh -i /k -W %h:%p bastion"),
        ("-o proxycommand='nc -x proxy:1080 %h %p' -J later", "nc -x proxy:1080 %h %p"),
        ("-o ProxyJump=none -J later", ""),
        ("-o StrictHostKeyChecking=yes", ""),
        ("-o", ""),
        ("-J '", ""),
        ("-J {{ bastion }}", ""),
        (None, ""),
        (7, ""),
    ],
)
def test_the_way_to_a_host(text: object, command: str) -> None:
    assert proxy_of({"ansible_ssh_common_args": text}) == command


HOST = {"profile": "h100", "bmc_address": "10.0.0.1", "rack": "rack-1"}


def test_the_way_belongs_to_the_node() -> None:
    complaints = Complaints()
    read = parse_host("gpu-1", HOST | {"ansible_ssh_common_args": "-J bastion"}, complaints)
    assert read is not None
    assert read[0].ssh_proxy == f"{WAY} -W '[%h]:%p' ssh://bastion"
    read = parse_host("gpu-2", HOST | {"ansible_ssh_common_args": "-o LogLevel={{ level }}"}, complaints)
    assert read is not None
    assert read[0].ssh_proxy == ""


@pytest.mark.parametrize("text", ["-J {{ bastion }}", "-o ProxyJump={{ bastion }}", "-o proxycommand='ssh {{ x }}'"])
def test_a_way_that_only_ansible_could_read_is_refused(text: str) -> None:
    """Otherwise the playbooks would go through the jump host and everything else into a time-out."""
    complaints = Complaints()
    assert parse_host("gpu-1", HOST | {"ansible_ssh_common_args": text}, complaints) is None
    assert "a jump host in a template is not evaluated here" in str(vars(complaints))
