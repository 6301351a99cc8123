package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	storage "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	selectedNode = "volume.kubernetes.io/selected-node"
	period       = 300 * time.Millisecond
)

// controller makes, grows and removes volumes; it stands for the external-provisioner and the external-resizer.
type controller struct {
	api     kubernetes.Interface
	pool    pool
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	nodes   corelisters.NodeLister
	classes storagelisters.StorageClassLister
}

// control looks at everything again and again: with a handful of volumes that is simpler than queues and cheap.
func control(kubeconfig string, where pool) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	shared := informers.NewSharedInformerFactory(api, 0)
	c := &controller{api: api, pool: where,
		claims:  shared.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: shared.Core().V1().PersistentVolumes().Lister(),
		nodes:   shared.Core().V1().Nodes().Lister(),
		classes: shared.Storage().V1().StorageClasses().Lister()}
	ctx := context.Background()
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	for ; ; time.Sleep(period) {
		if err := c.round(ctx); err != nil {
			return err
		}
	}
}

func (c *controller) round(ctx context.Context) error {
	claims, err := c.claims.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, claim := range claims {
		if err := c.serve(ctx, claim); err != nil {
			fmt.Println("claim", claim.Namespace, claim.Name, err)
		}
	}
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, volume := range volumes {
		if err := c.reclaim(ctx, volume); err != nil {
			fmt.Println("volume", volume.Name, err)
		}
	}
	return nil
}

func (c *controller) serve(ctx context.Context, claim *core.PersistentVolumeClaim) error {
	if claim.DeletionTimestamp != nil || claim.Spec.StorageClassName == nil {
		return nil
	}
	class, err := c.classes.Get(*claim.Spec.StorageClassName)
	if errors.IsNotFound(err) || (err == nil && class.Provisioner != driverName) {
		return nil
	}
	if err != nil {
		return err
	}
	if claim.Spec.VolumeName != "" {
		return c.grow(ctx, claim, class)
	}
	host := claim.Annotations[selectedNode]
	if host == "" {
		return nil // its pod is not scheduled yet
	}
	node, err := c.nodes.Get(host)
	if err != nil {
		return err
	}
	return c.provision(ctx, claim, class, node.Labels[zoneLabel])
}

func (c *controller) provision(ctx context.Context, claim *core.PersistentVolumeClaim, class *storage.StorageClass, zone string) error {
	id := "pvc-" + string(claim.UID)
	if _, err := c.volumes.Get(id); err == nil {
		return nil
	}
	size := claim.Spec.Resources.Requests[core.ResourceStorage]
	if err := os.MkdirAll(c.pool.data(id), 0o777); err != nil {
		return err
	}
	if err := os.Chmod(c.pool.data(id), 0o777); err != nil { // whatever the umask is
		return err
	}
	if err := c.copySource(claim, id); err != nil {
		return err
	}
	if err := c.pool.write(id, volume{Kind: class.Parameters["kind"], SizeBytes: size.Value()}); err != nil {
		return err
	}
	pv := &core.PersistentVolume{
		ObjectMeta: meta.ObjectMeta{Name: id, Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": driverName}},
		Spec: core.PersistentVolumeSpec{
			AccessModes:                   claim.Spec.AccessModes,
			Capacity:                      core.ResourceList{core.ResourceStorage: size},
			MountOptions:                  class.MountOptions,
			NodeAffinity:                  inZone(zone),
			PersistentVolumeReclaimPolicy: *class.ReclaimPolicy,
			PersistentVolumeSource: core.PersistentVolumeSource{
				CSI: &core.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: id}},
			StorageClassName: class.Name,
			VolumeMode:       claim.Spec.VolumeMode,
			ClaimRef: &core.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace,
				Name: claim.Name, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
		}}
	if _, err := c.api.CoreV1().PersistentVolumes().Create(ctx, pv, meta.CreateOptions{}); !errors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// copySource fills a clone.
func (c *controller) copySource(claim *core.PersistentVolumeClaim, id string) error {
	source := claim.Spec.DataSource
	if source == nil {
		return nil
	}
	if source.Kind != "PersistentVolumeClaim" {
		return fmt.Errorf("a volume cannot be made from a %s here", source.Kind)
	}
	from, err := c.claims.PersistentVolumeClaims(claim.Namespace).Get(source.Name)
	if err != nil {
		return err
	}
	syscall.Sync() // an image would miss what is still only in memory
	_, err = run("cp", "-a", "--reflink=auto", "--sparse=always", c.pool.folder(from.Spec.VolumeName)+"/.", c.pool.folder(id))
	return err
}

func inZone(zone string) *core.VolumeNodeAffinity {
	return &core.VolumeNodeAffinity{Required: &core.NodeSelector{NodeSelectorTerms: []core.NodeSelectorTerm{{
		MatchExpressions: []core.NodeSelectorRequirement{{Key: zoneLabel, Operator: core.NodeSelectorOpIn, Values: []string{zone}}}}}}}
}

// grow raises the volume's size and marks the claim; the kubelet then calls NodeExpandVolume and itself writes the
// claim's new capacity.
func (c *controller) grow(ctx context.Context, claim *core.PersistentVolumeClaim, class *storage.StorageClass) error {
	want, have := claim.Spec.Resources.Requests[core.ResourceStorage], claim.Status.Capacity[core.ResourceStorage]
	if claim.Status.Phase != core.ClaimBound || want.Cmp(have) <= 0 ||
		class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion {
		return nil
	}
	pv, err := c.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return err
	}
	if size := pv.Spec.Capacity[core.ResourceStorage]; size.Cmp(want) < 0 {
		body, err := json.Marshal(map[string]any{"spec": map[string]any{"capacity": core.ResourceList{core.ResourceStorage: want}}})
		if err != nil {
			return err
		}
		if _, err := c.api.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, body, meta.PatchOptions{}); err != nil {
			return err
		}
	}
	for _, condition := range claim.Status.Conditions {
		if condition.Type == core.PersistentVolumeClaimFileSystemResizePending && claim.Status.AllocatedResources.Storage().Cmp(want) == 0 {
			return nil // the kubelet's turn
		}
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{
		"allocatedResources":        core.ResourceList{core.ResourceStorage: want},
		"allocatedResourceStatuses": map[string]string{"storage": string(core.PersistentVolumeClaimNodeResizePending)},
		"conditions": []core.PersistentVolumeClaimCondition{{Type: core.PersistentVolumeClaimFileSystemResizePending,
			Status: core.ConditionTrue, LastTransitionTime: meta.Now(), Message: "the kubelet has to grow the file system"}}}})
	if err != nil {
		return err
	}
	_, err = c.api.CoreV1().PersistentVolumeClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, body, meta.PatchOptions{}, "status")
	return err
}

func (c *controller) reclaim(ctx context.Context, pv *core.PersistentVolume) error {
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != driverName || pv.Status.Phase != core.VolumeReleased ||
		pv.Spec.PersistentVolumeReclaimPolicy != core.PersistentVolumeReclaimDelete || pv.DeletionTimestamp != nil {
		return nil
	}
	if err := os.RemoveAll(c.pool.folder(pv.Spec.CSI.VolumeHandle)); err != nil {
		return err
	}
	return c.api.CoreV1().PersistentVolumes().Delete(ctx, pv.Name, meta.DeleteOptions{})
}
