import Foundation

/// The vsock of a machine. QEMU saves no machine that has it: it is taken out before, and another one is plugged in when the machine
/// goes on. A Mac's stays; its guest lets go of it in both.
final class VsockDevice: Sendable {
  private static let id = "vsock-device"

  private struct State {
    var service: Programs.Service?
    var isPlugged = false
  }

  private let state = Locked(State())
  private let arguments: Arguments
  private let programs: Programs

  init(_ arguments: Arguments, _ programs: Programs) {
    self.arguments = arguments
    self.programs = programs
  }

  /// Starts its program. - Parameter isPlugged: whether the machine starts with the device
  func serve(isPlugged: Bool) -> Bool {
    let socket = "\(arguments.folder)/vsock.sock"
    unlink(socket)
    guard
      let service = programs.serve(
        "/usr/bin/vhost-device-vsock", arguments.vsock, socket: socket,
        log: "\(arguments.spec.logs)/vhost-device-vsock.log")
    else { return false }
    state.with { $0 = State(service: service, isPlugged: isPlugged) }
    return true
  }

  /// Takes it out of a machine that runs.
  func unplug(_ qmp: Qmp) throws(Failure) {
    let (service, isPlugged) = state.with { ($0.service, $0.isPlugged) }
    guard let service, isPlugged else { return }
    service.expectEnd()
    try qmp.execute("device_del", ["id": Self.id])
    try qmp.remove(backend: "vsock")
    service.end()
    state.with { $0 = State() }
  }

  /// Plugs it into a machine that has none.
  func plug(_ qmp: Qmp) throws(Failure) {
    let (service, isPlugged) = state.with { ($0.service, $0.isPlugged) }
    guard arguments.spec.ports != nil, !isPlugged else { return }
    guard service != nil || serve(isPlugged: false) else { throw Failure(.hypervisor, "vhost-device-vsock did not start") }
    let address: [String: Any] = ["type": "unix", "data": ["path": "\(arguments.folder)/vsock.sock"]]
    let backend: [String: Any] = ["type": "socket", "data": ["addr": address, "server": false] as [String: Any]]
    try qmp.execute("chardev-add", ["id": "vsock", "backend": backend])
    try qmp.execute(
      "device_add", ["driver": "vhost-user-vsock-pci", "id": Self.id, "chardev": "vsock", "bus": "vsock-port"])
    state.with { $0.isPlugged = true }
  }
}
