/// Command lines of the programs of one machine, whose sockets are in a folder of its own.
struct Arguments {
  let spec: Spec
  let folder: String

  var vsock: [String] {
    ["--guest-cid", "3", "--socket", "\(folder)/vsock.sock", "--uds-path", "\(folder)/v"]
  }

  func files(_ share: Spec.Share) -> [String] {
    ["--socket-path=\(folder)/fs.sock", "--shared-dir", share.path, "--cache", "auto", "--sandbox", "namespace"]
      + ["--migration-mode", "find-paths", "--migration-on-error", "guest-error"]
  }

  /// - Parameter state: file with the state that the machine starts with
  func qemu(state: String? = nil) -> [String] {
    let machine = "q35,memory-backend=mem0,sata=off,smbus=off,i8042=off,vmport=off,graphics=off"
    var all = ["-M", machine, "-accel", "tcg", "-cpu", "max", "-smp", "\(spec.cpus)", "-m", "\(spec.memoryMb)"]
    all += ["-object", "memory-backend-memfd,id=mem0,size=\(spec.memoryMb)M,share=on"]
    // As a Mac's machines: the console is a virtio device, and a guest that restarts does not end its machine.
    all += ["-nodefaults", "-no-user-config", "-display", "none", "-chardev", "stdio,id=console,signal=off"]
    all += ["-device", "virtio-serial-pci,max_ports=1,bus=pcie.0,addr=0x12", "-device", "virtconsole,chardev=console"]
    all += ["-kernel", spec.kernel, "-initrd", spec.initrd, "-append", spec.commandLine]
    all += ["-qmp", "unix:\(folder)/qmp.sock,server=on,wait=off"]
    for (index, disk) in spec.disks.enumerated() {
      let file = disk.path.split(separator: ",", omittingEmptySubsequences: false).joined(separator: ",,")
      all += ["-drive", "id=d\(index),file=\(file),format=raw,if=none,readonly=\(disk.readOnly ? "on" : "off")"]
      all += ["-device", "virtio-blk-pci,drive=d\(index),bus=pcie.0,addr=\(index + 3)"]
    }
    if spec.ports != nil {
      all += ["-device", "pcie-root-port,id=vsock-port,bus=pcie.0,addr=0x10,chassis=1,slot=1"]
      if state == nil {
        all += ["-chardev", "socket,id=vsock,path=\(folder)/vsock.sock"]
        all += ["-device", "vhost-user-vsock-pci,id=vsock-device,chardev=vsock,bus=vsock-port"]
      }
    }
    if let share = spec.share {
      all += ["-chardev", "socket,id=files,path=\(folder)/fs.sock"]
      all += ["-device", "vhost-user-fs-pci,chardev=files,tag=\(share.tag),event_idx=off,bus=pcie.0,addr=0x11"]
    }
    if let state { all += ["-incoming", "file:\(state)"] }
    return all
  }
}
