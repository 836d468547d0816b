// swift-tools-version: 6.0
import PackageDescription

// Virtualization.framework is Apple's; elsewhere the same interface boots QEMU, for tests.
#if os(macOS)
let (hypervisor, other) = ("Virtualization", "Qemu")
#else
let (hypervisor, other) = ("Qemu", "Virtualization")
#endif

let package = Package(
  name: "SbxVM",
  platforms: [.macOS(.v13)],
  products: [.library(name: "sbxvm", type: .dynamic, targets: ["SbxVM"])],
  targets: [
    .systemLibrary(name: "CSbxVM"),
    .target(
      name: "SbxVM", dependencies: ["CSbxVM"], path: "Sources", exclude: ["CSbxVM", other],
      sources: ["SbxVM", hypervisor],
      // Swift's runtime cannot be unloaded; macOS unloads no library of Swift.
      linkerSettings: [.unsafeFlags(["-Xlinker", "-z", "-Xlinker", "nodelete"], .when(platforms: [.linux]))]),
  ],
  swiftLanguageModes: [.v6]
)
