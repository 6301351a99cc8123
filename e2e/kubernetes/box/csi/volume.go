// Package csi is a small CSI driver for a Kubernetes whose nodes all live on one machine.
//
// A volume is a folder of the pool (kind "dir") or an XFS image on a loop device (kind "loop", 300 MiB or more, so
// that its size is enforced and it can grow). Every node can reach the pool; node affinity ties a volume to its zone.
package csi

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	driverName = "csi.helenus.test"
	zoneLabel  = "topology.kubernetes.io/zone"
	kindFolder = "dir"
	kindImage  = "loop"
)

// A pool is the folder that holds one subfolder per volume.
type pool string

type volume struct {
	Kind      string `json:"kind"`
	SizeBytes int64  `json:"size_bytes"`
}

func (p pool) folder(id string) string { return filepath.Join(string(p), id) }
func (p pool) data(id string) string   { return filepath.Join(p.folder(id), "data") }
func (p pool) image(id string) string  { return filepath.Join(p.folder(id), "disk.img") }

func (p pool) read(id string) (volume, error) {
	var v volume
	if id == "" || id != filepath.Base(id) {
		return v, fmt.Errorf("volume id %q is not a name", id)
	}
	raw, err := os.ReadFile(filepath.Join(p.folder(id), "volume.json"))
	if err != nil {
		return v, err
	}
	return v, json.Unmarshal(raw, &v)
}

func (p pool) write(id string, v volume) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(p.folder(id), "volume.json"), raw, 0o644)
}

// makeImage formats a volume's image; an image that is there is complete, because it gets its name last.
func (p pool) makeImage(id string, v volume) error {
	path := p.image(id)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		return err
	}
	if _, err := run("truncate", "-s", fmt.Sprint(v.SizeBytes), path+".new"); err != nil {
		return err
	}
	// XFS, because growing ext4 while in use needs CAP_SYS_RESOURCE
	if _, err := run("mkfs.xfs", "-q", "-f", path+".new"); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	text := strings.TrimSpace(string(out))
	if err != nil {
		return text, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, text)
	}
	return text, nil
}

// isMounted asks the mount table, because a bind mount within one file system changes no device number.
func isMounted(path string) bool {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 4 && fields[4] == path {
			return true
		}
	}
	return false
}

func bind(from, to string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return syscall.Mount(from, to, "", syscall.MS_BIND, "")
}

func unbind(path string) error {
	for isMounted(path) {
		if err := syscall.Unmount(path, 0); err != nil {
			return err
		}
	}
	if err := os.Remove(path); !os.IsNotExist(err) {
		return err
	}
	return nil
}
