/*
 * C interface of libsbxvm, which runs virtual machines in the process that loads it.
 *
 * Memory. Every pointer points to memory of the caller, who keeps it until the call returns; the library keeps no pointer and
 * hands out none. Texts are UTF-8. A text that is given has its length in bytes and needs no end; a text that is returned ends
 * with a zero byte and is cut where its buffer ends.
 *
 * Handles. A machine is a number, 0 is none. A number that was freed is not given again: to use or free it is the error
 * `handle.invalid`, never undefined behaviour.
 *
 * Threads. Every function may be called on any thread, also at the same time for the same machine. Each machine has one serial
 * queue. Functions from sbxvm_start to sbxvm_free wait for that queue: call them where a thread may wait.
 *
 * Errors. A function that fails returns -1 (sbxvm_create: 0) and writes {"code","message"} as JSON to `error`, unless that is
 * NULL. There is no "last error": a call may run on any thread, so it would be that of another call.
 */
#ifndef SBXVM_H
#define SBXVM_H

#include <stdint.h>

/* Version of this interface; it changes with every declaration and every field of the JSON. */
#define SBXVM_ABI_VERSION 1

/* SBXVM_ABI_VERSION of the library, which may differ from that of its caller's header. */
uint32_t sbxvm_version(void);

/*
 * What this host can do, as JSON: {"hypervisor","console","features":{…},"lacks":{feature: reason}}.
 * `out` is the caller's, of `size` bytes. Returns the length of the text, which was cut if that is not below `size`.
 */
int64_t sbxvm_features(char *out, uint64_t size);

/*
 * Makes a machine of a specification, {"dir","cpus","memory_mb","kernel","initrd","command_line","disks":[{"path","read_only"}],
 * "share"?:{"path","tag"},"ports"?:[port],"events","console","logs","rosetta"?,"nested"?}; unknown fields are refused. Nothing
 * is opened yet.
 *
 * `events` and `console` are Unix sockets on which the caller listens: the library connects to both when the machine starts.
 * It writes a line of JSON, {"state","code"?,"signal"?,"message"?}, to the first at every change of state, and closes it after
 * "stopped". The second one is the guest's serial console, in both directions.
 *
 * A connection of the guest to one of `ports` reaches the Unix socket `<dir>/v_<port>`; 1024 at once, further ones are closed. A
 * machine without `ports` has no vsock.
 *
 * `spec` and `error` are the caller's. Returns the machine's handle, which is the caller's until sbxvm_free, or 0.
 */
uint64_t sbxvm_create(const char *spec, uint64_t length, char *error, uint64_t size);

/* Boots the kernel. Returns when the machine runs. `error` is the caller's. */
int32_t sbxvm_start(uint64_t vm, char *error, uint64_t size);

/* Ends the machine at once, in any state, and waits for its end. `error` is the caller's. */
int32_t sbxvm_stop(uint64_t vm, char *error, uint64_t size);

/* Freezes the processors of a running machine. `error` is the caller's. */
int32_t sbxvm_pause(uint64_t vm, char *error, uint64_t size);

/* Lets a paused machine go on. `error` is the caller's. */
int32_t sbxvm_resume(uint64_t vm, char *error, uint64_t size);

/* Writes a paused machine to files in an existing, empty folder. `folder` and `error` are the caller's. */
int32_t sbxvm_save(uint64_t vm, const char *folder, uint64_t length, char *error, uint64_t size);

/* Starts a new machine with the state in a folder; it is paused then. `folder` and `error` are the caller's. */
int32_t sbxvm_restore(uint64_t vm, const char *folder, uint64_t length, char *error, uint64_t size);

/* Accepts connections of the guest to one more port, of a machine that has a vsock. `error` is the caller's. */
int32_t sbxvm_listen(uint64_t vm, uint32_t port, char *error, uint64_t size);

/*
 * Connects to a port in the guest, and that connection to the Unix socket at `path`, on which the caller listens.
 * `path` and `error` are the caller's.
 */
int32_t sbxvm_connect(uint64_t vm, uint32_t port, const char *path, uint64_t length, char *error, uint64_t size);

/* Ends the machine if it has not ended, and gives up its handle. `error` is the caller's. */
int32_t sbxvm_free(uint64_t vm, char *error, uint64_t size);

#endif
