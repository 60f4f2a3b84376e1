/*
 * The supervisor of one script: it runs the script in its own PID, mount and IPC namespace and in cgroups, and decides and
 * enforces the end of the script from outside (decision 0059). The script can neither see nor signal it.
 *
 * Started as root, the supervisor gives the script a user id of its own. Started as another user, it puts the script into a
 * user namespace as well. Processes:
 *
 *     supervisor                 holds launch file and output pipe; outside of all namespaces and cgroups of the script
 *       init (PID 1)             sets up the namespaces, claims the launch, starts the script, reaps, forwards TERM; outside
 *                                of the cgroups; when it exits, the kernel kills all that is left
 *         /bin/sh script         in the cgroups; no capabilities, no new privileges
 *
 * On a busy machine, waiting for a processor takes longer than all the rest (decision 0061). So the supervisor waits for
 * nothing but the end of init, both have the priority of the manager, and both ask for short time slices.
 *
 * Argument: the launch file, as a name for those who look at the process table. Descriptors: 1 the output pipe, 3 the same
 * pipe for reading, 4 appends to the launch file, 5 reads it, 6 the order.
 *
 * The order is a list of NUL-terminated keys and values, in the sequence in which they are applied; `end` is the last. An
 * order that is cut off, because its sender died, starts nothing.
 *
 * The launch file: see wrapper.ts. After the claim, the supervisor appends `oom` if the kernel ended a process for lack of
 * memory, and then `exit <code>`, or `killed` if the script was killed; or `stuck` if processes of it cannot be ended.
 * All of them are written after the last process of the script is gone.
 *
 * Signals: TERM is forwarded to the script, USR1 kills it, HUP makes the supervisor look for its launch file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PIPE = 1, KEPT_PIPE = 3, APPEND = 4, READ = 5, ORDER = 6 };

/* Not in the headers of older C libraries. The numbers are the same on all architectures. */
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
enum { TREE_CLONE = 1, MOVE_FROM_FD = 4, EMPTY_PATH = 0x1000, RECURSIVE = 0x8000, ATTR_RDONLY = 1 };
struct attributes {
  uint64_t set, clear, propagation, userns;
};

/* ---- The order ---- */

enum { MOST_PATHS = 64, MOST_BYTES = 16 << 20 };

struct list {
  char *at[MOST_PATHS];
  int count;
};

static struct {
  char *script, *home, *tmp, *shm, *oom;
  long uid; /* -1: a user namespace */
  long processes, priority, nice, umask;
  struct list shared, hidden, readable, writable, cgroups, limits;
  char **environment;
} order = {.uid = -1, .umask = 077};

static const char *launch_file;
static int failures = -1; /* In init: where to report that the script cannot be set up. */
static int cgroup_files[MOST_PATHS]; /* Of each cgroup, the file through which a process joins it. */

/* Ends this process: nothing may count as the exit code of the script. */
static void fail(const char *format, ...) {
  int error = errno;
  char text[512];
  va_list values;
  va_start(values, format);
  int length = vsnprintf(text, sizeof text, format, values);
  va_end(values);
  if (length > 0 && length < (int)sizeof text)
    snprintf(text + length, sizeof text - length, ": %s", strerror(error));
  dprintf(failures >= 0 ? failures : PIPE, failures >= 0 ? "%s" : "oscar: the script was not started: %s\n", text);
  if (failures < 0) kill(getpid(), SIGKILL);
  _exit(1);
}

static void add(struct list *list, char *value) {
  if (list->count == MOST_PATHS) {
    errno = E2BIG;
    fail("the order has more than %d paths of one kind", MOST_PATHS);
  }
  list->at[list->count++] = value;
}

static char *read_descriptor(int file, size_t *length) {
  size_t space = 1 << 16;
  char *text = malloc(space);
  for (*length = 0; text;) {
    ssize_t count = read(file, text + *length, space - *length);
    if (count == 0) return text;
    if (count < 0 && errno != EINTR) break;
    if (count > 0) *length += count;
    if (*length == space) {
      if (space >= MOST_BYTES) break;
      text = realloc(text, space *= 2);
    }
  }
  fail("the order cannot be read");
  return NULL;
}

static void read_order(void) {
  size_t length, variables = 0;
  char *text = read_descriptor(ORDER, &length);
  close(ORDER);
  for (size_t i = 0; i < length; i++) variables += text[i] == 0;
  order.environment = calloc(variables + 1, sizeof(char *));
  if (!order.environment) fail("the order does not fit into memory");
  variables = 0;
  errno = EINVAL;
  for (char *key = text; key < text + length;) {
    char *value = memchr(key, 0, text + length - key);
    if (value && strcmp(key, "end") == 0) return;
    char *next = value ? memchr(value + 1, 0, text + length - value - 1) : NULL;
    if (!next) break;
    value++;
    if (strcmp(key, "env") == 0) order.environment[variables++] = value;
    else if (strcmp(key, "script") == 0) order.script = value;
    else if (strcmp(key, "home") == 0) order.home = value;
    else if (strcmp(key, "tmp") == 0) order.tmp = value;
    else if (strcmp(key, "shm") == 0) order.shm = value;
    else if (strcmp(key, "oom") == 0) order.oom = value;
    else if (strcmp(key, "uid") == 0) order.uid = atol(value);
    else if (strcmp(key, "processes") == 0) order.processes = atol(value);
    else if (strcmp(key, "priority") == 0) order.priority = atol(value);
    else if (strcmp(key, "nice") == 0) order.nice = atol(value);
    else if (strcmp(key, "umask") == 0) order.umask = strtol(value, NULL, 8);
    else if (strcmp(key, "share") == 0) add(&order.shared, value);
    else if (strcmp(key, "hide") == 0) add(&order.hidden, value);
    else if (strcmp(key, "read") == 0) add(&order.readable, value);
    else if (strcmp(key, "write") == 0) add(&order.writable, value);
    else if (strcmp(key, "cgroup") == 0) add(&order.cgroups, value);
    else if (strcmp(key, "limit") == 0) add(&order.limits, value);
    else break;
    key = next + 1;
  }
  fail("the order is incomplete");
}

/* ---- Files ---- */

static int write_file(const char *path, const char *text) {
  int file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0) return -1;
  ssize_t written = write(file, text, strlen(text));
  int error = errno;
  close(file);
  errno = error;
  return written < 0 ? -1 : 0;
}

static void make_parents(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = 0;
    if (mkdir(path, 0711) != 0 && errno != EEXIST && errno != EROFS) fail("mkdir %s", path);
    *slash = '/';
  }
}

/* A place to mount this on, where a mount above has hidden the original. */
static void make_place(char *path, int directory) {
  struct stat found;
  if (stat(path, &found) == 0) return;
  make_parents(path);
  int made = directory ? mkdir(path, 0711) : mknod(path, S_IFREG | 0644, 0);
  if (made != 0) fail("create %s", path);
}

/* ---- Cgroups ---- */

/* The files are opened now: in the namespace of the script, cgroups are read-only. */
static void make_cgroups(void) {
  char path[4096];
  for (int i = 0; i < order.cgroups.count; i++) {
    if (mkdir(order.cgroups.at[i], 0755) != 0 && errno != EEXIST) fail("mkdir %s", order.cgroups.at[i]);
    snprintf(path, sizeof path, "%s/cgroup.procs", order.cgroups.at[i]);
    cgroup_files[i] = open(path, O_WRONLY | O_CLOEXEC);
    if (cgroup_files[i] < 0) fail("open %s", path);
  }
  for (int i = 0; i < order.limits.count; i++) {
    char *path = order.limits.at[i], *value = strrchr(path, '=');
    if (!value) continue;
    *value++ = 0;
    if (write_file(path, value) != 0) fail("write %s to %s", value, path);
  }
}

static void join_cgroups(void) {
  for (int i = 0; i < order.cgroups.count; i++)
    if (write(cgroup_files[i], "0", 1) != 1) fail("join %s", order.cgroups.at[i]);
}

/* Version 2 counts in `memory.events`, version 1 in `memory.oom_control`, in a line of the same form. */
static int ran_out_of_memory(void) {
  char text[1024] = "\n";
  int file = order.oom ? open(order.oom, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  ssize_t count = read(file, text + 1, sizeof text - 2);
  close(file);
  char *found = count > 0 ? strstr(text, "\noom_kill ") : NULL;
  return found && atol(found + 10) > 0;
}

enum { REMOVALS = 10000, PAUSE_NS = 1000000 };

/* Removing a cgroup is the kernel's own proof that it is empty. Returns 0 if one of them does not become empty. */
static int remove_cgroups(void) {
  for (int i = 0; i < order.cgroups.count; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/cgroup.kill", order.cgroups.at[i]);
    for (int tries = 0; rmdir(order.cgroups.at[i]) != 0 && errno != ENOENT; tries++) {
      if (tries == REMOVALS) return 0;
      write_file(path, "1"); /* Version 1 has no such file: there the namespace alone kills. */
      nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
  }
  return 1;
}

/* ---- Init: the namespaces ---- */

static void write_own(const char *path, const char *format, long id) {
  char text[64];
  snprintf(text, sizeof text, format, id, id);
  if (write_file(path, text) != 0) fail("write %s", path);
}

/* The user keeps its own id in the user namespace: with id 0 a program would get capabilities at execve. */
static void map_user(uid_t uid, gid_t gid) {
  write_own("/proc/self/setgroups", "deny", 0);
  write_own("/proc/self/uid_map", "%ld %ld 1\n", uid);
  write_own("/proc/self/gid_map", "%ld %ld 1\n", gid);
}

static int clone_tree(const char *path) {
  int tree = syscall(SYS_open_tree, AT_FDCWD, path, TREE_CLONE | O_CLOEXEC);
  if (tree < 0) fail("open_tree %s", path);
  return tree;
}

static void attach(int tree, char *path) {
  struct stat found;
  if (fstat(tree, &found) != 0) fail("stat %s", path);
  make_place(path, S_ISDIR(found.st_mode));
  if (syscall(SYS_move_mount, tree, "", AT_FDCWD, path, MOVE_FROM_FD) != 0) fail("move_mount %s", path);
  close(tree);
}

static void make_readonly(int at, const char *path, int flags) {
  struct attributes attributes = {.set = ATTR_RDONLY};
  if (syscall(SYS_mount_setattr, at, path, flags, &attributes, sizeof attributes) != 0) fail("mount_setattr %s", path);
}

static void mount_new(const char *type, char *path, const char *options, unsigned long flags) {
  if (mount(type, path, type, flags, options) != 0) fail("mount %s on %s", type, path);
}

/*
 * The whole machine is read-only, except for the directories of the script, which are cloned before. A later mount may hide
 * an earlier one, which is how the directory of the runner disappears while the files of this script stay.
 */
static void set_up_mounts(void) {
  static char proc[] = "/proc", shm[] = "/dev/shm";
  static char *temporary[] = {"/tmp", "/var/tmp"};
  char options[64];
  int trees[3 * MOST_PATHS], count = 0, taken = 0;
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) fail("make mounts private");
  for (int i = 0; i < order.shared.count; i++) trees[count++] = clone_tree(order.shared.at[i]);
  for (int i = 0; i < order.readable.count; i++) make_readonly(trees[count++] = clone_tree(order.readable.at[i]), "", EMPTY_PATH);
  for (int i = 0; i < order.writable.count; i++) trees[count++] = clone_tree(order.writable.at[i]);
  int tmp[] = {clone_tree(order.tmp), clone_tree(order.tmp)};
  make_readonly(AT_FDCWD, "/", RECURSIVE);

  for (int i = 0; i < 2; i++)
    if (access(temporary[i], F_OK) == 0) attach(tmp[i], temporary[i]);
  for (int i = 0; i < order.shared.count; i++) attach(trees[taken++], order.shared.at[i]);
  for (int i = 0; i < order.hidden.count; i++) {
    make_place(order.hidden.at[i], 1);
    mount_new("tmpfs", order.hidden.at[i], "mode=0711,size=1m", MS_NOSUID | MS_NODEV);
  }
  for (int i = 0; i < order.readable.count; i++) attach(trees[taken++], order.readable.at[i]);
  for (int i = 0; i < order.writable.count; i++) attach(trees[taken++], order.writable.at[i]);
  for (int i = 0; i < order.hidden.count; i++) make_readonly(AT_FDCWD, order.hidden.at[i], 0);
  snprintf(options, sizeof options, "mode=1777,size=%s", order.shm);
  if (access(shm, F_OK) == 0) mount_new("tmpfs", shm, options, MS_NOSUID | MS_NODEV);
  mount_new("proc", proc, NULL, MS_NOSUID | MS_NODEV | MS_NOEXEC);
}

/* ---- The script ---- */

enum { DEFAULT_SLICE = 0, SHORT_SLICE_NS = 100000 };

/*
 * Linux 6.12 and later schedule a process that asks for a short slice earlier; others ignore the slice. Only root may become
 * less nice than the process that starts scripts; for others the call fails, and everything stays as it was.
 */
static void schedule(long nice, uint64_t slice_ns) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } attributes = {.size = sizeof attributes, .policy = SCHED_OTHER, .nice = nice, .runtime = slice_ns};
  syscall(SYS_sched_setattr, 0, &attributes, 0);
}

static void limit(int resource, rlim_t most) {
  struct rlimit now;
  if (getrlimit(resource, &now) != 0) fail("getrlimit");
  if (now.rlim_max < most) most = now.rlim_max;
  if (setrlimit(resource, &(struct rlimit){most, most}) != 0) fail("setrlimit");
}

static void drop_privileges(void) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) fail("drop capability %d", capability);
  if (order.uid >= 0) {
    gid_t gid = order.uid;
    if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0) fail("setresgid");
    if (setresuid(order.uid, order.uid, order.uid) != 0) fail("setresuid");
  }
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct none[2] = {{0}, {0}};
  if (syscall(SYS_capset, &header, none) != 0) fail("capset");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("set no_new_privs");
}

static void run_script(void) {
  char *arguments[] = {"/bin/sh", order.script, NULL};
  sigset_t none;
  schedule(order.nice, DEFAULT_SLICE);
  setpgid(0, 0);
  join_cgroups();
  /* A keyring is shared by all processes of a user id, also by the next script that has it. */
  syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
  limit(RLIMIT_CORE, 0);
  if (order.processes > 0) limit(RLIMIT_NPROC, order.processes);
  umask(order.umask);
  drop_privileges();
  if (chdir(order.home) != 0) fail("chdir %s", order.home);
  if (dup2(PIPE, 2) < 0) fail("dup2");
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execve(arguments[0], arguments, order.environment);
  fail("execve %s", arguments[0]);
}

static void block_signals(sigset_t *set) {
  sigemptyset(set);
  for (const int *each = (const int[]){SIGCHLD, SIGTERM, SIGHUP, SIGINT, SIGUSR1, 0}; *each; each++) sigaddset(set, *each);
  sigprocmask(SIG_BLOCK, set, NULL);
}

/* The first line of the launch file decides who may start the script: it has the process id of the supervisor. */
static int has_claimed(pid_t supervisor) {
  char line[32], first[32];
  int length = snprintf(line, sizeof line, "%d\n", supervisor);
  return pread(READ, first, length, 0) == length && memcmp(line, first, length) == 0;
}

static int claim(pid_t supervisor) {
  return dprintf(APPEND, "%d\n", supervisor) > 0 && has_claimed(supervisor);
}

/* Signals from inside of the namespace that would end any other process do not reach PID 1. */
static void run_init(pid_t supervisor, int alive, const sigset_t *signals, uid_t uid, gid_t gid) {
  char byte;
  int status;
  if (order.uid < 0) map_user(uid, gid);
  /* The script must not outlive the supervisor. If that died before this line, `alive` is at its end. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0) fail("set the death signal");
  if (read(alive, &byte, 1) == 0) _exit(1);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  set_up_mounts();
  if (!claim(supervisor)) _exit(1);
  close(APPEND);
  close(READ);
  pid_t script = fork();
  if (script < 0) fail("fork");
  if (script == 0) run_script();
  close(failures);
  for (;;) {
    siginfo_t info;
    if (sigwaitinfo(signals, &info) < 0) continue;
    if (info.si_signo == SIGTERM) kill(-script, SIGTERM);
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0;)
      if (ended == script) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
}

/* ---- The supervisor ---- */

/* Returns when no process of the script is left: the kernel reports the end of a PID 1 after that of all others. */
static int wait_for_end(pid_t init, const sigset_t *signals) {
  for (;;) {
    siginfo_t info;
    int status;
    if (waitpid(init, &status, WNOHANG) == init) return status;
    if (sigwaitinfo(signals, &info) < 0) continue;
    if (info.si_signo == SIGTERM) kill(init, SIGTERM);
    if (info.si_signo == SIGUSR1) kill(init, SIGKILL);
  }
}

static void record_end(int status) {
  char text[64];
  const char *oom = ran_out_of_memory() ? "oom\n" : "";
  int length, code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (!remove_cgroups()) length = snprintf(text, sizeof text, "stuck\n");
  else if (WIFSIGNALED(status)) length = snprintf(text, sizeof text, "%skilled\n", oom);
  else length = snprintf(text, sizeof text, "%sexit %d\n", oom, code);
  /* The disk may be full. Then the manager learns the code from the exit of this process. */
  if (write(APPEND, text, length) != length) _exit(code);
}

/*
 * Stays until the manager kills it or the launch file is gone. It keeps the pipe, and with it the last output, for a manager
 * that restarts; and no other process can get its process id.
 */
static void linger(const sigset_t *signals) {
  for (int file = 0; file <= ORDER; file++)
    if (file != KEPT_PIPE) close(file);
  while (access(launch_file, F_OK) == 0) sigtimedwait(signals, NULL, &(struct timespec){.tv_sec = 30});
}

int main(int count, char **arguments) {
  int alive[2], reports[2];
  char failure[512];
  sigset_t signals;
  if (count != 2) return 2;
  launch_file = arguments[1];
  for (int file = KEPT_PIPE; file <= ORDER; file++) fcntl(file, F_SETFD, FD_CLOEXEC);
  read_order();
  errno = EINVAL;
  if (!order.script || !order.home || !order.tmp || !order.shm || order.uid == 0) fail("the order is incomplete");
  schedule(order.priority, SHORT_SLICE_NS);
  block_signals(&signals);
  if (pipe2(alive, O_CLOEXEC | O_NONBLOCK) != 0 || pipe2(reports, O_CLOEXEC) != 0) fail("pipe");
  make_cgroups();

  pid_t self = getpid();
  uid_t uid = geteuid();
  gid_t gid = getegid();
  long flags = CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWIPC | (order.uid < 0 ? CLONE_NEWUSER : 0) | SIGCHLD;
  pid_t init = syscall(SYS_clone, flags, 0, 0, 0, 0);
  if (init < 0) remove_cgroups(), fail("clone");
  if (init == 0) {
    failures = reports[1];
    close(alive[1]);
    close(reports[0]);
    close(KEPT_PIPE);
    run_init(self, alive[0], &signals, uid, gid);
  }
  close(reports[1]);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  int status = wait_for_end(init, &signals);
  ssize_t length = read(reports[0], failure, sizeof failure);
  int claimed = has_claimed(self);
  if (length > 0)
    dprintf(PIPE, "oscar: the script %s: %.*s\n", claimed ? "cannot run" : "was not started", (int)length, failure);
  if (!claimed) {
    remove_cgroups();
    kill(self, SIGKILL); /* Nothing may count as the exit code of the script. */
  }
  record_end(status);
  linger(&signals);
  return 0;
}
