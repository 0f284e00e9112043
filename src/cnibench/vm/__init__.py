"""A whole run in a virtual machine with a distribution's stock kernel, for hosts whose own kernel
lacks what a profile needs.

host:  kernel.py (which image) + accel.py (KVM or emulation) + initramfs.py  -> machine.py (qemu) ->
execute.py (waits)
guest: the initramfs mounts the host's root read-only with a throw-away overlay and starts guest.py
as PID 1, which runs cnibench;
       frames.py is what passes between execute.py and guest.py.
"""
