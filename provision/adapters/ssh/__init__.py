"""SSH to deployed hosts: host keys are pinned, commands have deadlines."""

from provision.adapters.ssh.shell import ParamikoShell

__all__ = ["ParamikoShell"]
