import Dispatch
import Foundation

/// Lines of JSON to a Unix socket, which a slow reader does not delay the machine with.
final class Events: Sendable {
  struct Event: Encodable, Sendable {
    let state: String
    var code: Int32? = nil
    var signal: String? = nil
    var message: String? = nil
  }

  private let queue = DispatchQueue(label: "sbxvm.events")
  private let descriptor: Int32

  init(path: String) throws(Failure) {
    descriptor = try UnixSocket.connect(to: path)
  }

  func write(_ event: Event) {
    queue.async {
      guard var line = try? JSONEncoder().encode(event) else { return }
      line.append(UInt8(ascii: "\n"))
      line.withUnsafeBytes { bytes in
        var rest = bytes[...]
        while !rest.isEmpty {
          let sent = UnixSocket.send(self.descriptor, UnsafeRawBufferPointer(rebasing: rest))
          // The reader is gone: it has seen the end of its connection.
          guard sent > 0 else { return }
          rest = rest.dropFirst(sent)
        }
      }
    }
  }

  deinit {
    UnixSocket.close(descriptor)
  }
}
