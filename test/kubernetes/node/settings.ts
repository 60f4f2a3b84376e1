import { join } from 'node:path';
import { type ClusterNames, DNS_ADDRESS, POD_RANGE } from './names.ts';

export const PAUSE = 'oscar.test/pause:1';

/** Kernel settings that the kubelet would write for the whole machine if it found other values. */
export const KERNEL_SETTINGS: Readonly<Record<string, string>> = {
  'vm/overcommit_memory': '1',
  'vm/panic_on_oom': '0',
  'kernel/panic': '10',
  'kernel/panic_on_oops': '1',
  'kernel/keys/root_maxkeys': '1000000',
  'kernel/keys/root_maxbytes': '25000000',
};

/** The configuration of containerd, in TOML. */
export function containerdSettings({ directory }: ClusterNames, plugins: string): string {
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  const unused = ['internal.v1.opt', ...['btrfs', 'zfs', 'devmapper', 'aufs'].map((name) => `snapshotter.v1.${name}`)];
  return `
version = 2
oom_score = 0
disabled_plugins = ${JSON.stringify(unused.map((name) => `io.containerd.${name}`))}
[${cri}]
  sandbox_image = "${PAUSE}"
  # Where root is not allowed everything, it may not make itself harder to kill.
  restrict_oom_score_adj = true
  disable_hugetlb_controller = true
  tolerate_missing_hugetlb_controller = true
  stream_server_address = "127.0.0.1"
  [${cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [${cri}.containerd.runtimes.runc.options]
      SystemdCgroup = false
  [${cri}.cni]
    bin_dir = "${plugins}"
    conf_dir = "${join(directory, 'cni')}"
`;
}

export const podNetwork = {
  cniVersion: '0.4.0',
  name: 'pods',
  plugins: [
    {
      type: 'bridge',
      bridge: 'cni0',
      isGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: 'host-local', ranges: [[{ subnet: POD_RANGE }]], routes: [{ dst: '0.0.0.0/0' }] },
    },
    { type: 'portmap', capabilities: { portMappings: true } },
  ],
};

export function kubeletSettings({ directory, address, name }: ClusterNames): unknown {
  const pki = (file: string) => join(directory, 'pki', file);
  const socket = 'unix:///run/containerd/containerd.sock';
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    address,
    healthzBindAddress: '127.0.0.1',
    tlsCertFile: pki('kubelet-server.crt'),
    tlsPrivateKeyFile: pki('kubelet-server.key'),
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: pki('ca.crt') },
    },
    authorization: { mode: 'Webhook' },
    containerRuntimeEndpoint: socket,
    imageServiceEndpoint: socket,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${name}`,
    failCgroupV1: false,
    failSwapOn: false,
    oomScoreAdj: 0,
    clusterDNS: [DNS_ADDRESS],
    clusterDomain: 'cluster.local',
    resolvConf: join(directory, 'resolv.conf'),
    maxPods: 110,
    // Deleted images could not be pulled again: there is no registry.
    imageGCHighThresholdPercent: 100,
    evictionHard: { 'memory.available': '100Mi', 'nodefs.available': '1%', 'imagefs.available': '1%' },
    // Tests wait for these periods; the defaults are ten seconds to one minute.
    syncFrequency: '1s',
    nodeStatusUpdateFrequency: '2s',
    nodeLeaseDurationSeconds: 8,
    volumeStatsAggPeriod: '2s',
    serializeImagePulls: false,
    kubeAPIQPS: 500,
    kubeAPIBurst: 1_000,
    eventRecordQPS: 0,
  };
}

export function proxySettings({ address, node }: ClusterNames, kubeconfig: string): unknown {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    bindAddress: address,
    healthzBindAddress: '127.0.0.1:10256',
    metricsBindAddress: '127.0.0.1:10249',
    clientConnection: { kubeconfig },
    clusterCIDR: POD_RANGE,
    mode: 'iptables',
    hostnameOverride: node,
    iptables: { minSyncPeriod: '100ms' },
    // These settings apply to the whole machine, so kube-proxy must not change them.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
  };
}
