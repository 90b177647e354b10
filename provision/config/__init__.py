"""Config: an Ansible inventory in, checked nodes, profiles and settings out (docs/reference/inventory.md)."""
