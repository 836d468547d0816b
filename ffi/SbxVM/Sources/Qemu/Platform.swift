import Dispatch

/// Where there is no Virtualization.framework, the same interface boots QEMU: so that everything but the framework is tested.
enum Platform: Hypervisor {
  static var abilities: Abilities {
    Abilities(
      hypervisor: "qemu-swift", console: "hvc0",
      features: [
        "pause": true, "save_state": true, "shared_folder": true, "vsock": true, "rosetta": false, "nested": false,
        "emulation": true,
      ],
      lacks: [
        "rosetta": "Rosetta is part of macOS on Apple silicon", "nested": "emulated machines have none",
      ])
  }

  static func guest(
    of spec: Spec, console: Int32, queue: DispatchQueue, reports: Reports
  ) throws(Failure) -> any Guest {
    if spec.rosetta || spec.nested {
      UnixSocket.close(console)
      throw Failure(.feature, "rosetta and nested are features of Virtualization.framework")
    }
    return QemuGuest(spec, console: console, queue: queue, reports: reports)
  }
}
