package csi

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// server is what the kubelet of one node talks to.
type server struct {
	spec.UnimplementedIdentityServer
	spec.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	pool               pool
	name, zone, socket string
}

func (s *server) GetPluginInfo(context.Context, *spec.GetPluginInfoRequest) (*spec.GetPluginInfoResponse, error) {
	return &spec.GetPluginInfoResponse{Name: driverName, VendorVersion: "1"}, nil
}

func (s *server) Probe(context.Context, *spec.ProbeRequest) (*spec.ProbeResponse, error) {
	return &spec.ProbeResponse{}, nil
}

func (s *server) GetPluginCapabilities(context.Context, *spec.GetPluginCapabilitiesRequest) (*spec.GetPluginCapabilitiesResponse, error) {
	topology := &spec.PluginCapability_Service_{Service: &spec.PluginCapability_Service{
		Type: spec.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS}}
	growth := &spec.PluginCapability_VolumeExpansion_{VolumeExpansion: &spec.PluginCapability_VolumeExpansion{
		Type: spec.PluginCapability_VolumeExpansion_ONLINE}}
	return &spec.GetPluginCapabilitiesResponse{
		Capabilities: []*spec.PluginCapability{{Type: topology}, {Type: growth}}}, nil
}

func (s *server) NodeGetInfo(context.Context, *spec.NodeGetInfoRequest) (*spec.NodeGetInfoResponse, error) {
	return &spec.NodeGetInfoResponse{NodeId: s.name,
		AccessibleTopology: &spec.Topology{Segments: map[string]string{zoneLabel: s.zone}}}, nil
}

func (s *server) NodeGetCapabilities(context.Context, *spec.NodeGetCapabilitiesRequest) (*spec.NodeGetCapabilitiesResponse, error) {
	answer := &spec.NodeGetCapabilitiesResponse{}
	for _, kind := range []spec.NodeServiceCapability_RPC_Type{
		spec.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		spec.NodeServiceCapability_RPC_EXPAND_VOLUME,
		spec.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		answer.Capabilities = append(answer.Capabilities, &spec.NodeServiceCapability{
			Type: &spec.NodeServiceCapability_Rpc{Rpc: &spec.NodeServiceCapability_RPC{Type: kind}}})
	}
	return answer, nil
}

func (s *server) find(id string) (volume, error) {
	v, err := s.pool.read(id)
	if err != nil {
		return v, status.Error(codes.NotFound, err.Error())
	}
	return v, nil
}

func (s *server) NodeStageVolume(_ context.Context, q *spec.NodeStageVolumeRequest) (*spec.NodeStageVolumeResponse, error) {
	v, err := s.find(q.VolumeId)
	if err != nil || isMounted(q.StagingTargetPath) {
		return &spec.NodeStageVolumeResponse{}, err
	}
	if v.Kind == kindFolder {
		return &spec.NodeStageVolumeResponse{}, bind(s.pool.data(q.VolumeId), q.StagingTargetPath)
	}
	if err := os.MkdirAll(q.StagingTargetPath, 0o755); err != nil {
		return nil, err
	}
	if err := s.pool.makeImage(q.VolumeId, v); err != nil {
		return nil, err
	}
	// nouuid: a clone carries the id of its origin
	_, err = run("mount", "-o", "loop,nouuid", s.pool.image(q.VolumeId), q.StagingTargetPath)
	return &spec.NodeStageVolumeResponse{}, err
}

func (s *server) NodeUnstageVolume(_ context.Context, q *spec.NodeUnstageVolumeRequest) (*spec.NodeUnstageVolumeResponse, error) {
	return &spec.NodeUnstageVolumeResponse{}, unbind(q.StagingTargetPath)
}

func (s *server) NodePublishVolume(_ context.Context, q *spec.NodePublishVolumeRequest) (*spec.NodePublishVolumeResponse, error) {
	if isMounted(q.TargetPath) {
		return &spec.NodePublishVolumeResponse{}, nil
	}
	err := bind(q.StagingTargetPath, q.TargetPath)
	if err == nil && q.Readonly {
		err = syscall.Mount("", q.TargetPath, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	}
	return &spec.NodePublishVolumeResponse{}, err
}

func (s *server) NodeUnpublishVolume(_ context.Context, q *spec.NodeUnpublishVolumeRequest) (*spec.NodeUnpublishVolumeResponse, error) {
	return &spec.NodeUnpublishVolumeResponse{}, unbind(q.TargetPath)
}

func (s *server) NodeExpandVolume(_ context.Context, q *spec.NodeExpandVolumeRequest) (*spec.NodeExpandVolumeResponse, error) {
	v, err := s.find(q.VolumeId)
	if err != nil {
		return nil, err
	}
	v.SizeBytes = max(v.SizeBytes, q.GetCapacityRange().GetRequiredBytes())
	if v.Kind == kindImage {
		if err := s.growImage(q.VolumeId, v, q.VolumePath, q.StagingTargetPath); err != nil {
			return nil, err
		}
	}
	return &spec.NodeExpandVolumeResponse{CapacityBytes: v.SizeBytes}, s.pool.write(q.VolumeId, v)
}

func (s *server) growImage(id string, v volume, target, staging string) error {
	if _, err := run("truncate", "-s", fmt.Sprint(v.SizeBytes), s.pool.image(id)); err != nil {
		return err
	}
	device, err := run("findmnt", "-n", "-o", "SOURCE", "--target", target)
	if err != nil {
		return err
	}
	device, _, _ = strings.Cut(device, "[")
	if _, err := run("losetup", "-c", device); err != nil {
		return err
	}
	_, err = run("xfs_growfs", staging)
	return err
}

func (s *server) NodeGetVolumeStats(_ context.Context, q *spec.NodeGetVolumeStatsRequest) (*spec.NodeGetVolumeStatsResponse, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(q.VolumePath, &fs); err != nil {
		return nil, status.Error(codes.NotFound, err.Error())
	}
	return &spec.NodeGetVolumeStatsResponse{Usage: []*spec.VolumeUsage{
		{Unit: spec.VolumeUsage_BYTES, Total: int64(fs.Blocks) * fs.Bsize,
			Available: int64(fs.Bavail) * fs.Bsize, Used: int64(fs.Blocks-fs.Bfree) * fs.Bsize},
		{Unit: spec.VolumeUsage_INODES, Total: int64(fs.Files),
			Available: int64(fs.Ffree), Used: int64(fs.Files - fs.Ffree)},
	}}, nil
}

// GetInfo answers the kubelet, which finds drivers by the sockets in its plugins_registry folder.
func (s *server) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: driverName, Endpoint: s.socket,
		SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus ends the program when the kubelet refused it, so that it is started anew.
func (s *server) NotifyRegistrationStatus(_ context.Context, q *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	if !q.PluginRegistered {
		fmt.Fprintln(os.Stderr, "the kubelet refused the driver:", q.Error)
		os.Exit(1)
	}
	return &registration.RegistrationStatusResponse{}, nil
}

func listen(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	return net.Listen("unix", path)
}

func (s *server) serve(kubelet string) error {
	driver, err := listen(s.socket)
	if err != nil {
		return err
	}
	registry, err := listen(filepath.Join(kubelet, "plugins_registry", driverName+"-reg.sock"))
	if err != nil {
		return err
	}
	calls, announcements := grpc.NewServer(), grpc.NewServer()
	spec.RegisterIdentityServer(calls, s)
	spec.RegisterNodeServer(calls, s)
	registration.RegisterRegistrationServer(announcements, s)
	failed := make(chan error)
	go func() { failed <- calls.Serve(driver) }()
	go func() { failed <- announcements.Serve(registry) }()
	return <-failed
}

// Main runs the part named by the first argument: "node" or "controller".
func Main(args []string) error {
	flags := flag.NewFlagSet("csi", flag.ContinueOnError)
	where := flags.String("pool", "", "folder that holds the volumes")
	name := flags.String("node", "", "name of the node")
	zone := flags.String("zone", "", "zone of the node")
	kubelet := flags.String("kubelet-dir", "/var/lib/kubelet", "root folder of the kubelet")
	kubeconfig := flags.String("kubeconfig", "", "how the controller reaches the apiserver")
	if len(args) == 0 {
		return errors.New("say node or controller")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "node":
		s := &server{pool: pool(*where), name: *name, zone: *zone,
			socket: filepath.Join(*kubelet, "plugins", driverName, "csi.sock")}
		return s.serve(*kubelet)
	case "controller":
		return control(*kubeconfig, pool(*where))
	}
	return fmt.Errorf("no part called %q", args[0])
}
