import Foundation

extension Decoder {
  /// A container that has no other fields than those of its keys.
  func strictContainer<Key: CodingKey & CaseIterable>(keyedBy keys: Key.Type) throws -> KeyedDecodingContainer<Key> {
    let known = Set(Key.allCases.map(\.stringValue))
    let given = try container(keyedBy: AnyKey.self).allKeys
    if let unknown = given.first(where: { !known.contains($0.stringValue) }) {
      let path = codingPath + [unknown]
      throw DecodingError.dataCorrupted(.init(codingPath: path, debugDescription: "unknown field"))
    }
    return try container(keyedBy: keys)
  }
}

extension KeyedDecodingContainer {
  /// An absolute path without a zero byte.
  func path(_ key: Key) throws -> String {
    let path = try decode(String.self, forKey: key)
    guard path.hasPrefix("/"), !path.utf8.contains(0) else { throw invalid(key, "an absolute path") }
    return path
  }

  func invalid(_ key: Key, _ expected: String) -> DecodingError {
    .dataCorruptedError(forKey: key, in: self, debugDescription: "must be \(expected)")
  }
}

extension DecodingError {
  /// The field and what is wrong with it, without the value.
  var said: String {
    switch self {
    case .keyNotFound(let key, let context): "\(Self.path(context.codingPath + [key])): missing"
    case .typeMismatch(let type, let context): "\(Self.path(context.codingPath)): is not of the type \(type)"
    case .valueNotFound(_, let context): "\(Self.path(context.codingPath)): is null"
    case .dataCorrupted(let context):
      context.codingPath.isEmpty
        ? context.debugDescription : "\(Self.path(context.codingPath)): \(context.debugDescription)"
    @unknown default: "\(self)"
    }
  }

  private static func path(_ keys: [any CodingKey]) -> String {
    let path = keys.map { $0.intValue.map { "[\($0)]" } ?? ".\($0.stringValue)" }.joined()
    return path.hasPrefix(".") ? String(path.dropFirst()) : path
  }
}

private struct AnyKey: CodingKey {
  let stringValue: String
  var intValue: Int? { nil }
  init(stringValue: String) { self.stringValue = stringValue }
  init?(intValue: Int) { nil }
}
