import Foundation

/// Copies between two sockets in both directions, the end of each direction included, with little of it in memory. Each bridge is a
/// thread that polls: libdispatch on Linux loses events of sockets that hang up.
final class Bridge: Sendable {
  /// Stack of the thread, in `bytes`.
  private static let stack = 256 * 1024

  private let descriptors: [Int32]
  private let isOpen = Locked(true)

  init(_ one: Int32, _ other: Int32) {
    descriptors = [one, other]
    descriptors.forEach {
      UnixSocket.adopt($0)
      UnixSocket.makeNonBlocking($0)
    }
  }

  /// - Parameter closed: called once, after both descriptors are closed
  func start(closed: @escaping @Sendable () -> Void) {
    let thread = Thread {
      self.copy()
      self.isOpen.with { isOpen in
        isOpen = false
        self.descriptors.forEach(UnixSocket.close)
      }
      closed()
    }
    thread.stackSize = Self.stack
    thread.start()
  }

  /// Ends both directions, soon.
  func cancel() {
    isOpen.with { isOpen in
      guard isOpen else { return }
      descriptors.forEach { _ = shutdown($0, Int32(SHUT_RDWR)) }
    }
  }

  private func copy() {
    var flows = [(0, 1), (1, 0)].map { Flow(from: descriptors[$0], to: descriptors[$1]) }
    while !flows.isEmpty {
      var waits = flows.map(\.wait)
      if poll(&waits, nfds_t(waits.count), -1) < 0, errno != EINTR { return }
      for index in flows.indices { flows[index].copy() }
      // After an error, nobody waits for what comes in the other direction.
      if flows.contains(where: \.isBroken) { return }
      flows.removeAll(where: \.isEnded)
    }
  }
}
