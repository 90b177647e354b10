"""Ansible in waves: nodes that are ready together share one invocation of ansible-runner, in a child process."""

from provision.adapters.ansible.waves import AnsibleWaves

__all__ = ["AnsibleWaves"]
