"""How a host is reached, read from the variable that Ansible itself reads."""

from __future__ import annotations

import pytest

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
