import CSbxVM

/// Never called: it compiles only if each exported function has the type that sbxvm.h declares.
private func exportsMatchTheHeader() {
  func same<Function>(_: Function, _: Function) {}
  same(sbxvm_version, sbxVersion)
  same(sbxvm_features, sbxFeatures)
  same(sbxvm_create, sbxCreate)
  same(sbxvm_start, sbxStart)
  same(sbxvm_stop, sbxStop)
  same(sbxvm_pause, sbxPause)
  same(sbxvm_resume, sbxResume)
  same(sbxvm_save, sbxSave)
  same(sbxvm_restore, sbxRestore)
  same(sbxvm_listen, sbxListen)
  same(sbxvm_connect, sbxConnect)
  same(sbxvm_free, sbxFree)
}
