// SPDX-License-Identifier: Apache-2.0

package mutation_test

import (
	"context"
	"fmt"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/mutation"
)

// A handler of GeneratePatches that has control planes pull their images from the
// registry that a variable of the cluster names.
func ExampleGeneratePatches() {
	handle := func(ctx context.Context, req *hooksv1.GeneratePatchesRequest, resp *hooksv1.GeneratePatchesResponse) error {
		kind := controlplanev1.GroupVersion().WithKind("KubeadmControlPlaneTemplate")
		return mutation.GeneratePatches(ctx, req, resp, mutation.For(kind, func(_ context.Context, t *mutation.Template, cp *controlplanev1.KubeadmControlPlaneTemplate) error {
			host, found, err := mutation.Variable[string](t.Variables, "imageRepository.host")
			if err != nil || !found {
				return err
			}
			cp.Spec.Template.Spec.KubeadmConfigSpec.ClusterConfiguration.ImageRepository = host + "/" + t.Builtins.Cluster.Name
			return nil
		}))
	}

	req := &hooksv1.GeneratePatchesRequest{
		Variables: []hooksv1.Variable{variable("builtin", `{"cluster":{"name":"demo"}}`), variable("imageRepository", `{"host":"registry.example.com"}`)},
		Items: []hooksv1.GeneratePatchesRequestItem{requestItem("1", holder("Cluster", "demo", "spec.controlPlaneRef"), `{
			"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
			"kind": "KubeadmControlPlaneTemplate",
			"spec": {"template": {"spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"imageRepository": "registry.k8s.io", "newer": true}}}}}
		}`)},
	}
	resp := &hooksv1.GeneratePatchesResponse{}
	fmt.Println(handle(context.Background(), req, resp))
	for _, item := range resp.Items {
		fmt.Println(item.UID, item.PatchType, string(item.Patch))
	}
	// Output:
	// <nil>
	// 1 JSONPatch [{"op":"add","path":"/spec/template/spec/kubeadmConfigSpec/clusterConfiguration/imageRepository","value":"registry.example.com/demo"}]
}

// A handler of CanUpdateMachine that can write files and set the clock of a
// running machine, and nothing else.
func ExampleTake() {
	handle := func(_ context.Context, req *hooksv1.CanUpdateMachineRequest, resp *hooksv1.CanUpdateMachineResponse) (err error) {
		resp.BootstrapConfigPatch, err = mutation.Take(req.Current.BootstrapConfig, req.Desired.BootstrapConfig, "spec.files", "spec.ntp.servers")
		return err
	}

	req, resp := &hooksv1.CanUpdateMachineRequest{}, &hooksv1.CanUpdateMachineResponse{}
	req.Current.BootstrapConfig.Raw = []byte(`{"spec":{"files":[{"path":"/etc/motd","content":"hello"}],"users":[{"name":"a"}]}}`)
	req.Desired.BootstrapConfig.Raw = []byte(`{"spec":{"files":[{"path":"/etc/motd","content":"welcome"}],"users":[{"name":"b"}]}}`)
	fmt.Println(handle(context.Background(), req, resp))
	fmt.Println(string(resp.BootstrapConfigPatch.Patch))
	// Output:
	// <nil>
	// [{"op":"add","path":"/spec/files/0/content","value":"welcome"}]
}
