import CSbxVM
import Foundation

// The functions of sbxvm.h. Nothing else of the library is called from outside.

public typealias Text = UnsafePointer<CChar>
public typealias Buffer = UnsafeMutablePointer<CChar>

/// Longest specification or path, in `bytes`.
private let lengthLimit: UInt64 = 1024 * 1024
private let machines = Handles()

@_cdecl("sbxvm_version")
public func sbxVersion() -> UInt32 {
  UInt32(SBXVM_ABI_VERSION)
}

@_cdecl("sbxvm_features")
public func sbxFeatures(_ out: Buffer?, _ size: UInt64) -> Int64 {
  write(Platform.abilities, to: out, size)
}

@_cdecl("sbxvm_create")
public func sbxCreate(_ spec: Text?, _ length: UInt64, _ error: Buffer?, _ size: UInt64) -> UInt64 {
  do throws(Failure) {
    return machines.add(Machine(try Spec.read(try bytes(spec, length))))
  } catch let failure {
    write(failure, to: error, size)
    return 0
  }
}

@_cdecl("sbxvm_start")
public func sbxStart(_ vm: UInt64, _ error: Buffer?, _ size: UInt64) -> Int32 {
  status(error, size) { () throws(Failure) in try machines.find(vm).start() }
}

@_cdecl("sbxvm_stop")
public func sbxStop(_ vm: UInt64, _ error: Buffer?, _ size: UInt64) -> Int32 {
  status(error, size) { () throws(Failure) in try machines.find(vm).stop() }
}

@_cdecl("sbxvm_pause")
public func sbxPause(_ vm: UInt64, _ error: Buffer?, _ size: UInt64) -> Int32 {
  status(error, size) { () throws(Failure) in try machines.find(vm).pause() }
}

@_cdecl("sbxvm_resume")
public func sbxResume(_ vm: UInt64, _ error: Buffer?, _ size: UInt64) -> Int32 {
  status(error, size) { () throws(Failure) in try machines.find(vm).resume() }
}

@_cdecl("sbxvm_save")
public func sbxSave(_ vm: UInt64, _ folder: Text?, _ length: UInt64, _ error: Buffer?, _ size: UInt64) -> Int32 {
  status(error, size) { () throws(Failure) in try machines.find(vm).save(to: try path(folder, length)) }
}

@_cdecl("sbxvm_restore")
public func sbxRestore(_ vm: UInt64, _ folder: Text?, _ length: UInt64, _ error: Buffer?, _ size: UInt64) -> Int32 {
  status(error, size) { () throws(Failure) in try machines.find(vm).restore(from: try path(folder, length)) }
}

@_cdecl("sbxvm_listen")
public func sbxListen(_ vm: UInt64, _ port: UInt32, _ error: Buffer?, _ size: UInt64) -> Int32 {
  status(error, size) { () throws(Failure) in try machines.find(vm).listen(port: port) }
}

@_cdecl("sbxvm_connect")
public func sbxConnect(
  _ vm: UInt64, _ port: UInt32, _ socket: Text?, _ length: UInt64, _ error: Buffer?, _ size: UInt64
) -> Int32 {
  status(error, size) { () throws(Failure) in
    try machines.find(vm).connect(port: port, to: try path(socket, length))
  }
}

@_cdecl("sbxvm_free")
public func sbxFree(_ vm: UInt64, _ error: Buffer?, _ size: UInt64) -> Int32 {
  status(error, size) { () throws(Failure) in try machines.remove(vm).stop() }
}

private func status(_ error: Buffer?, _ size: UInt64, _ call: () throws(Failure) -> Void) -> Int32 {
  do throws(Failure) {
    try call()
    return 0
  } catch let failure {
    write(failure, to: error, size)
    return -1
  }
}

private func bytes(_ text: Text?, _ length: UInt64) throws(Failure) -> Data {
  guard let text, length <= lengthLimit else {
    throw Failure(.spec, "a text is missing, or longer than \(lengthLimit) bytes")
  }
  return Data(bytes: text, count: Int(length))
}

private func path(_ text: Text?, _ length: UInt64) throws(Failure) -> String {
  let path = String(data: try bytes(text, length), encoding: .utf8) ?? ""
  guard path.hasPrefix("/"), !path.utf8.contains(0) else { throw Failure(.spec, "not an absolute path in UTF-8") }
  return path
}

/// Writes JSON with a zero byte at its end, cut to the buffer. Returns its whole length.
@discardableResult
private func write(_ value: some Encodable, to buffer: Buffer?, _ size: UInt64) -> Int64 {
  let encoder = JSONEncoder()
  encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
  let json = (try? encoder.encode(value)) ?? Data()
  guard let buffer, size > 0 else { return Int64(json.count) }
  let count = Int(min(UInt64(json.count), size - 1))
  buffer.withMemoryRebound(to: UInt8.self, capacity: count + 1) { bytes in
    json.copyBytes(to: bytes, count: count)
    bytes[count] = 0
  }
  return Int64(json.count)
}
