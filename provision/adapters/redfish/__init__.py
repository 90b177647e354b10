"""BMCs over Redfish: the port ``Bmc`` on ``redfish.aio``. ``bmc.RedfishBmc`` is the door to this room."""
