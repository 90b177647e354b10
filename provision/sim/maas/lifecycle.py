"""What operations and reports do to a machine's record.

The answers of some operations are rendered before the state has followed (abort, deploy, release): handlers call
``finish`` functions after rendering where MAAS answers with a stale body (measured on 3.6.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from provision.model.machine import Status
from provision.sim.maas import scripts
from provision.sim.maas.power import PowerError, PowerQueue, controllable
from provision.sim.maas.region import Region
from provision.sim.maas.state import COMMISSIONING, INSTALLATION, RELEASE, TESTING, Record, User
from provision.sim.maas.statuses import ALLOWED, NAMES, ScriptStatus
from provision.sim.maas.wire import Refusal, text

S = Status
_ABORTS: dict[Status, tuple[str, Status | None]] = {
    S.COMMISSIONING: ("Aborted commissioning", S.NEW),
    S.DEPLOYING: ("Aborted deployment", S.ALLOCATED),
    S.DISK_ERASING: ("Aborted disk erasing", S.FAILED_DISK_ERASING),
    S.TESTING: ("Aborted testing", None),
}
UNOWNED = frozenset({S.NEW, S.READY, S.FAILED_COMMISSIONING, S.BROKEN})
BMC_EVENT = "Failed to query node's BMC"
INSTALL_FAILED = "Installation failed (refer to the installation log for more information)."


@dataclass
class Lifecycle:
    """State changes of machines in one region. ``no_rack`` says whether a rack controller is missing."""

    region: Region
    power: PowerQueue
    no_rack: Callable[[], bool]

    def commission(
        self,
        record: Record,
        user: User | None,
        *,
        tests: tuple[str, ...] = (),
        skip_bmc_config: bool = False,
        custom: tuple[str, ...] = (),
    ) -> None:
        """Start commissioning, and MAAS's power button with it.

        Raises:
            Refusal: 503 when no rack controller reaches the BMC; the machine is back in its status by then.
        """
        record.previous_status = record.status
        scripts.open_commissioning(self.region, record, tests=tests, skip_bmc_config=skip_bmc_config, custom=custom)
        self.region.enter(record, S.COMMISSIONING)
        record.netboot = True
        if user is None:
            return
        record.owner = user.name
        self.region.log(record, "Commissioning")
        try:
            self.need_rack(record, user)
        except Refusal:
            self._revert(record, user.name)
            raise
        self.switch_on(record, lambda _: self._revert(record, user.name))

    def test(self, record: Record, user: User, tests: tuple[str, ...]) -> None:
        """Run testing scripts."""
        record.previous_status = record.status
        record.current[TESTING] = scripts.open_testing(self.region, record, tests)
        self.region.enter(record, S.TESTING)
        record.owner = record.owner or user.name
        self.region.log(record, "Testing")
        self.need_rack(record, user)
        self.switch_on(record, lambda _: self._revert(record, user.name))

    def abort(self, record: Record) -> None:
        """What an abort's own answer shows already: the message, and for commissioning the lost owner."""
        message, _ = _ABORTS[record.status]
        self.region.log(record, message)
        if record.status is S.COMMISSIONING:
            record.owner = None

    def finish_abort(self, record: Record) -> None:
        """What a read after an abort shows."""
        kinds = {S.COMMISSIONING: (COMMISSIONING, TESTING), S.TESTING: (TESTING,), S.DEPLOYING: (INSTALLATION,)}
        for kind in kinds.get(record.status, ()):
            scripts.stop(record.current.get(kind))
        _, target = _ABORTS[record.status]
        # Not "target or …": Status.NEW is 0 and would count as absent.
        status = record.previous_status if target is None else target
        if record.status is S.TESTING and status in UNOWNED:
            record.owner = None
        self.region.enter(record, status)
        self.switch_off(record)

    def allocate(self, record: Record, user: User) -> None:
        """Ready → Allocated."""
        record.owner = user.name
        self.region.enter(record, S.ALLOCATED)

    def deploy(self, record: Record, user: User, series: str, kernel: str, user_data: str | None) -> None:
        """Start an installation (or a boot into memory)."""
        record.owner = record.owner or user.name
        record.osystem, record.series, record.hwe_kernel = "ubuntu", series, kernel
        record.user_data = user_data
        record.netboot = True
        if not record.ephemeral:
            scripts.open_installation(self.region, record)
        self.region.enter(record, S.DEPLOYING)
        self.region.log(record, "Deploying")
        self.need_rack(record, user)
        self.switch_on(record, lambda error: self.fail_deploy(record, f"Power on for the node failed: {error}"))

    def release(self, record: Record, user: User, *, erase: bool) -> None:
        """Give the machine back; nothing happens in Ready and Releasing."""
        if record.status in {S.READY, S.RELEASING}:
            return
        if erase:
            scripts.open_release(self.region, record)
            self.region.enter(record, S.DISK_ERASING)
            self.need_rack(record, user)
            self.switch_on(record, lambda error: self._fail_erase(record, error))
            return
        self._release(record)

    def _release(self, record: Record) -> None:
        self.region.log(record, "Releasing")
        record.osystem = record.series = ""
        record.hwe_kernel = record.user_data = None
        record.ephemeral = record.locked = False
        record.netboot = True
        record.current.pop(INSTALLATION, None)
        if record.power_state == "off" or not controllable(record):
            self._released(record)
        else:
            self.region.enter(record, S.RELEASING)
            self.switch_off(record)

    def _released(self, record: Record) -> None:
        self.region.log(record, "Released")
        record.owner, record.owner_data = None, {}
        for nic in record.nics:
            for link in nic.links:
                link.address = None
        record.touch()
        commissioned = record.current.get(COMMISSIONING)
        passed = commissioned is not None and commissioned.counted is ScriptStatus.PASSED
        self.region.enter(record, S.READY if passed else S.NEW)

    def mark_broken(self, record: Record, comment: str) -> None:
        """Broken. With the power on, the owner stays; with the power off, the release is complete (M248, M268)."""
        if record.status in ALLOWED["release"] and record.status not in {S.READY, S.RELEASING}:
            self._release(record)
        self.region.enter(record, S.BROKEN)
        record.error_description = comment

    def mark_fixed(self, record: Record) -> None:
        """Broken → Ready."""
        record.error_description = record.osystem = record.series = ""
        record.hwe_kernel = None
        self.region.enter(record, S.READY)

    def override_failed_testing(self, record: Record) -> None:
        """Failed testing → Ready (or Deployed)."""
        if not record.osystem:
            record.owner = None
        self.region.enter(record, S.DEPLOYED if record.osystem else S.READY)

    def rescue(self, record: Record, user: User) -> None:
        """Boot the rescue image."""
        if record.status is S.ENTERING_RESCUE_MODE:
            return
        self.need_rack(record, user)
        record.previous_status = record.status
        self.region.enter(record, S.ENTERING_RESCUE_MODE)
        self.region.log(record, "Entering rescue mode")
        self.switch_on(record, lambda _: self.region.enter(record, S.FAILED_ENTERING_RESCUE_MODE))

    def exit_rescue(self, record: Record, user: User) -> None:
        """Back to what it was; a deployed machine boots its disk again."""
        self.need_rack(record, user)
        self.region.enter(record, S.EXITING_RESCUE_MODE)

        def failed(error: PowerError) -> None:
            self.region.enter(record, S.FAILED_EXITING_RESCUE_MODE)

        if record.previous_status is S.DEPLOYED:
            self.switch_on(record, failed, done=self._left_rescue)
        else:
            self.switch_off(record, failed)

    def commissioned(self, record: Record, *, ok: bool) -> bool:
        """The node says that its commissioning scripts are done. True if testing follows in the same boot."""
        if record.status is not S.COMMISSIONING:
            return False
        testing = record.current.get(TESTING)
        if not ok:
            self.region.enter(record, S.FAILED_COMMISSIONING)
            self.region.log(record, "Failed commissioning")
        elif testing is not None and testing.status is ScriptStatus.PENDING:
            record.previous_status = S.READY
            self.region.enter(record, S.TESTING)
            self.region.log(record, "Testing")
            return True
        else:
            self._ready(record)
        return False

    def _ready(self, record: Record) -> None:
        # A machine that enlisted itself has no owner and waits in New for somebody to want it.
        enlisted = record.owner is None
        record.owner = None
        self.region.enter(record, S.NEW if enlisted else S.READY)
        self.region.log(record, "New" if enlisted else "Ready")

    def tested(self, record: Record, *, ok: bool) -> None:
        """The node says that its testing scripts are done."""
        if record.status is not S.TESTING:
            return
        if not ok:
            self.region.enter(record, S.FAILED_TESTING)
            self.region.log(record, "Failed testing")
            return
        if record.previous_status in UNOWNED:
            record.owner = None
        self.region.enter(record, record.previous_status)
        self.region.log(record, NAMES[record.previous_status])

    def installed(self, record: Record, address: str | None, log: str = "") -> None:
        """The installer has written the image; the machine will boot from its disk."""
        if record.status is not S.DEPLOYING:
            return
        current = record.current.get(INSTALLATION)
        if current is not None:
            scripts.finish(self.region, record, current, current.runs[0], output=log)
        record.netboot = record.ephemeral
        for nic in record.nics:
            for link in nic.links:
                if link.mode in {"auto", "static"} and link.address is None:
                    link.address = address
        record.touch()
        image = f"{record.osystem}/{record.series}/{record.architecture}"
        self.region.log(record, "Image Deployed", f"deployed {image}", is_status=False)

    def booted(self, record: Record) -> None:
        """cloud-init of the installed system has finished."""
        if record.status is S.DEPLOYING:
            self.region.enter(record, S.DEPLOYED)
            self.region.log(record, "Deployed")

    def install_failed(self, record: Record, log: str) -> None:
        """The installer gave up; its log is the installation result."""
        if record.status is not S.DEPLOYING:
            return
        self.region.log(record, "Node installation failure", "'curtin' cmd-install", level="ERROR", is_status=False)
        current = record.current.get(INSTALLATION)
        if current is not None:
            scripts.finish(self.region, record, current, current.runs[0], exit_status=1, output=log)
        self.fail_deploy(record, INSTALL_FAILED)

    def fail_deploy(self, record: Record, why: str) -> None:
        """Failed deployment, with the reason in error_description (where it outlives its cause)."""
        record.error_description = why
        self.region.enter(record, S.FAILED_DEPLOYMENT)
        self.region.log(record, "Marking node failed", why, level="ERROR", action="mark_failed")

    def rescued(self, record: Record) -> None:
        """The rescue image is up."""
        if record.status is S.ENTERING_RESCUE_MODE:
            self.region.enter(record, S.RESCUE_MODE)
            self.region.log(record, "Rescue mode")

    def erased(self, record: Record) -> None:
        """wipe-disks is done; MAAS waits for the end of cloud-init all the same (M242)."""
        if record.status is S.DISK_ERASING:
            self.region.log(record, "Disks erased")

    def erase_over(self, record: Record) -> None:
        """cloud-init of the erasing boot has finished."""
        if record.status is S.DISK_ERASING:
            record.current.pop(RELEASE, None)
            self._release(record)

    def _fail_erase(self, record: Record, error: PowerError) -> None:
        self.region.enter(record, S.FAILED_DISK_ERASING)
        self.region.log(record, "Marking node failed", str(error), level="ERROR", action="mark_failed")

    def time_out(self, record: Record, name: str, minutes: int, failed: Status) -> None:
        """MAAS's status monitor lost patience."""
        why = f"Node operation '{name}' timed out after {minutes} minutes."
        for kind in (COMMISSIONING, TESTING, INSTALLATION):
            scripts.stop(record.current.get(kind), ScriptStatus.TIMED_OUT)
        record.error_description = why
        self.region.enter(record, failed)
        self.region.log(record, "Marking node failed", why, level="ERROR", action="mark_failed")

    def need_rack(self, record: Record, user: User) -> None:
        """Raises Refusal (503) when no rack controller can reach the BMC, and logs it."""
        if not controllable(record) or not self.no_rack():
            return
        message = f"No rack controllers can access the BMC of node {record.hostname}"
        self.region.log(
            record, BMC_EVENT, f"({user.name}) - {message}", level="WARNING", user=user.name, is_status=False
        )
        raise Refusal(text(503, message))

    def switch_on(
        self,
        record: Record,
        failed: Callable[[PowerError], None] | None = None,
        *,
        done: Callable[[Record], None] | None = None,
    ) -> None:
        """Press in the background; ``failed`` is told of a dead button, ``done`` of success."""
        if controllable(record):
            self.power.put(record.system_id, self._press(record, "on", failed, done))
        elif done is not None:
            done(record)

    def switch_off(self, record: Record, failed: Callable[[PowerError], None] | None = None) -> None:
        """Press in the background."""
        if controllable(record):
            self.power.put(record.system_id, self._press(record, "off", failed, self._is_off))
        else:
            self._left_rescue(record)

    async def _press(
        self,
        record: Record,
        state: str,
        failed: Callable[[PowerError], None] | None,
        done: Callable[[Record], None] | None,
    ) -> None:
        driver = self.power.driver
        try:
            await (driver.on(record) if state == "on" else driver.off(record))
        except PowerError as error:
            record.power_state = "error"
            what = f"Failed to power {state} node"
            self.region.log(record, what, f"Power {state} for the node failed: {error}", level="WARNING")
            if failed is not None:
                failed(error)
            elif record.status is S.RELEASING:
                self.region.enter(record, S.FAILED_RELEASING)
            return
        record.power_state = state
        if done is not None:
            done(record)

    def _is_off(self, record: Record) -> None:
        if record.status is S.RELEASING:
            self._released(record)
        elif record.previous_status is not S.DEPLOYED:
            self._left_rescue(record)

    def _left_rescue(self, record: Record) -> None:
        if record.status is S.EXITING_RESCUE_MODE:
            self.region.enter(record, record.previous_status)
            self.region.log(record, "Exited rescue mode")

    def _revert(self, record: Record, user: str) -> None:
        if record.status not in {S.COMMISSIONING, S.TESTING}:
            return
        kinds = (COMMISSIONING, TESTING) if record.status is S.COMMISSIONING else (TESTING,)
        for kind in kinds:
            scripts.stop(record.current.get(kind))
        was, back = record.status.name, record.previous_status.name
        self.region.enter(record, record.previous_status)
        self.region.log(
            record,
            BMC_EVENT,
            f"({user}) - Aborting {was} and reverting to {back}. Unable to power control the node."
            " Please check power credentials.",
            level="WARNING",
        )
