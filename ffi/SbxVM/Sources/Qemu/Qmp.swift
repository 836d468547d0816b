import Foundation

/// One connection to a machine's monitor, for a few commands in a row. It waits for its answers.
final class Qmp {
  private let socket: Int32
  private var received = Data()

  init(path: String) throws(Failure) {
    socket = try UnixSocket.connect(to: path)
    _ = try line()
    try execute("qmp_capabilities")
  }

  deinit {
    UnixSocket.close(socket)
  }

  @discardableResult
  func execute(_ command: String, _ arguments: [String: Any] = [:]) throws(Failure) -> [String: Any] {
    let object: [String: Any] = ["execute": command, "arguments": arguments]
    let line = (try? JSONSerialization.data(withJSONObject: object)) ?? Data()
    guard line.withUnsafeBytes({ UnixSocket.send(socket, $0) }) == line.count else { throw gone }
    while true {
      let answer = try self.line()
      if let error = answer["error"] as? [String: Any] {
        throw Failure(.hypervisor, "QEMU, \(command): \(error["desc"] as? String ?? "failed")")
      }
      if let value = answer["return"] { return value as? [String: Any] ?? [:] }
    }
  }

  /// Removes a device's backend, which is refused until the guest's kernel has let go of the device.
  func remove(backend: String) throws(Failure) {
    for _ in 0..<2000 {
      do {
        try execute("chardev-remove", ["id": backend])
        return
      } catch {
        guard error.code == .hypervisor else { throw error }
      }
      usleep(5000)
    }
    throw Failure(.hypervisor, "the guest does not let go of its \(backend)")
  }

  /// Repeats a query until its status is one of these. - Returns: the status
  func wait(_ query: String, for statuses: Set<String>) throws(Failure) -> String {
    while true {
      if let status = try execute(query)["status"] as? String, statuses.contains(status) { return status }
      usleep(5000)
    }
  }

  private func line() throws(Failure) -> [String: Any] {
    while true {
      if let end = received.firstIndex(of: UInt8(ascii: "\n")) {
        let line = received[..<end]
        received = Data(received[(end + 1)...])
        return (try? JSONSerialization.jsonObject(with: line)) as? [String: Any] ?? [:]
      }
      var bytes = [UInt8](repeating: 0, count: 4096)
      let count = read(socket, &bytes, bytes.count)
      guard count > 0 else { throw gone }
      received.append(contentsOf: bytes[..<count])
    }
  }

  private var gone: Failure { Failure(.ended, "QEMU has ended") }
}
