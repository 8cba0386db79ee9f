// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// edit changes the config of the pool, as a user does.
func (w *world) edit(change func(*bootstrapv1.KubeadmConfigSpec)) {
	w.t.Helper()
	c := w.config("p1")
	change(&c.Spec)
	c.Generation++
	if err := w.mgmt.Update(w.t.Context(), c); err != nil {
		w.t.Fatal(err)
	}
}

func TestAChangedConfigReachesTheMachinesToCome(t *testing.T) {
	t.Parallel()
	w := joined(t, pool())
	w.edit(func(s *bootstrapv1.KubeadmConfigSpec) { s.PreKubeadmCommands = []string{"echo changed"} })
	w.run("p1")
	if count(w.writes, "update Secret") != 1 || !strings.Contains(string(w.secret("p1").Data["value"]), "echo changed") {
		t.Errorf("writes %v, want the data with the change", w.writes)
	}
	inData := w.document("p1").kubeadm(t, kubeadm.JoinConfigPath).Join.Discovery.BootstrapToken.Token
	if inData != testToken {
		t.Errorf("token %s, want the one that was there", inData)
	}
	w.run("p1")
	w.run("p1")
	if len(w.writes) != 0 {
		t.Errorf("writes in steady state: %v", w.writes)
	}
	w.r.rendered.Forget(client.ObjectKeyFromObject(w.config("p1"))) // as a new process
	w.run("p1")
	if len(w.writes) != 0 {
		t.Errorf("writes after a restart: %v", w.writes)
	}
}

func TestUnrenderableChangeIsReported(t *testing.T) {
	t.Parallel()
	w := joined(t, pool())
	before := string(w.secret("p1").Data["value"])
	w.edit(func(s *bootstrapv1.KubeadmConfigSpec) {
		s.Files = []bootstrapv1.File{{Path: "/x", ContentFrom: bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "none", Key: "k"}}}}
	})
	_, err := w.try("p1")
	got := states(w.config("p1"))[1]
	if err == nil || !strings.HasPrefix(got, "DataSecretAvailable=True Available: The data could not be made again: ") || !strings.Contains(got, "none") {
		t.Errorf("error %v, condition %s", err, got)
	}
	if string(w.secret("p1").Data["value"]) != before {
		t.Error("the data was overwritten")
	}
}

// TestAConfigThatTakesThePlaceOfAnotherMakesItsOwnData has a pool that still names
// the Secret of the first.
func TestAConfigThatTakesThePlaceOfAnotherMakesItsOwnData(t *testing.T) {
	t.Parallel()
	p := pool()
	p.Spec.Template.Spec.Bootstrap.DataSecretName = new("old")
	w := newWorld(t, cluster(initialized), p, certSecret(certs.CA), dataSecret("old"), configFor(p))
	w.run("p1")
	if got := w.config("p1").Status.DataSecretName; got != "p1" {
		t.Errorf("dataSecretName %q, want p1", got)
	}
	if s := w.secret("old"); len(s.OwnerReferences) > 0 {
		t.Errorf("the Secret of the first config was taken over: %v", s.OwnerReferences)
	}
}
