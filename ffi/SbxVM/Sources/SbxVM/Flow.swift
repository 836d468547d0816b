import Foundation

/// One direction of a bridge, between descriptors that do not block.
struct Flow {
  /// Most `bytes` that are read and not yet written.
  private static let room = 64 * 1024
  /// Reads and writes before the other direction gets its turn.
  private static let rounds = 16

  private let from: Int32
  private let to: Int32
  private var bytes = [UInt8](repeating: 0, count: room)
  /// bytes that wait for the receiver; while there are some, nothing is read
  private var waiting = 0..<0
  private(set) var isEnded = false
  /// it ended by an error instead of the sender's end
  private(set) var isBroken = false

  init(from: Int32, to: Int32) {
    self.from = from
    self.to = to
  }

  /// What has to happen before it goes on.
  var wait: pollfd {
    waiting.isEmpty
      ? pollfd(fd: from, events: Int16(POLLIN), revents: 0) : pollfd(fd: to, events: Int16(POLLOUT), revents: 0)
  }

  /// Copies until one side has to be waited for.
  mutating func copy() {
    for _ in 0..<Self.rounds where !isEnded {
      if waiting.isEmpty, !read() { return }
      if !waiting.isEmpty, !write() { return }
    }
  }

  /// - Returns: false if there is nothing now, or never again
  private mutating func read() -> Bool {
    let count = bytes.withUnsafeMutableBytes { Foundation.read(from, $0.baseAddress, $0.count) }
    if count < 0 { return fail() }
    waiting = 0..<count
    guard count == 0 else { return true }
    _ = shutdown(to, Int32(SHUT_WR))
    isEnded = true
    return false
  }

  /// - Returns: false if the receiver takes nothing now, or never again
  private mutating func write() -> Bool {
    let sent = bytes.withUnsafeBytes { UnixSocket.send(to, UnsafeRawBufferPointer(rebasing: $0[waiting])) }
    if sent < 0 { return fail() }
    waiting = (waiting.lowerBound + sent)..<waiting.upperBound
    return true
  }

  private mutating func fail() -> Bool {
    if errno != EAGAIN, errno != EINTR {
      isEnded = true
      isBroken = true
    }
    return false
  }
}
