// SPDX-License-Identifier: Apache-2.0

package providers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/bench/planes"
)

const (
	// calls is how many are measured each way; warmUp calls precede them.
	calls, warmUp = 1000, 50
	// byService and byURL are namespaces whose ConfigMaps are reviewed by the webhook of
	// a Pod, and by the one on this host.
	byService, byURL = "by-service", "by-url"
	// known is how long the API server may take to load a webhook.
	known = 10 * time.Second
)

// calls measures the same request with a webhook in a Pod and with one on this host, in
// turns: other load of the machine affects both equally.
func (b *Bench) calls(ctx context.Context, c *Cost) (err error) {
	url, stop, err := b.serve(ctx)
	if err != nil {
		return fmt.Errorf("serve a webhook: %w", err)
	}
	defer func() { err = errors.Join(err, stop()) }()
	for name, from := range map[string]admissionregistrationv1.WebhookClientConfig{
		byService: {Service: &admissionregistrationv1.ServiceReference{Namespace: namespace(1), Name: "manager"}, CABundle: b.ca},
		byURL:     {URL: &url, CABundle: b.ca},
	} {
		if err := b.register(ctx, name, from); err != nil {
			return fmt.Errorf("register webhook %s: %w", name, err)
		}
	}
	took := map[string][]float64{}
	for n := range warmUp + calls {
		for _, name := range []string{byService, byURL} {
			begin := time.Now()
			if err := b.ask(ctx, name); err != nil {
				return fmt.Errorf("call %d of webhook %s: %w", n+1, name, err)
			}
			if n >= warmUp {
				took[name] = append(took[name], float64(time.Since(begin))/float64(time.Millisecond))
			}
		}
	}
	c.ServiceMilliseconds, c.DirectMilliseconds = median(took[byService]), median(took[byURL])
	return nil
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// serve runs the webhook on this host.
func (b *Bench) serve(ctx context.Context) (url string, stop func() error, err error) {
	cmd := exec.CommandContext(ctx, b.manager(), "-webhook=127.0.0.1:0", "-certs="+b.work)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error {
		err := cmd.Process.Kill()
		_ = cmd.Wait() // it reports that it was killed
		return err
	}
	line := bufio.NewScanner(out)
	if !line.Scan() {
		return "", nil, errors.Join(errors.New("it did not say where"), line.Err(), stop())
	}
	return "https://" + line.Text() + "/", stop, nil
}

// register has ConfigMaps of a namespace reviewed by a webhook, and waits until they are:
// the request fails if the webhook cannot be called, and succeeds if it is not loaded
// yet, so the first call is recognized by a name that the webhook refuses.
func (b *Bench) register(ctx context.Context, name string, from admissionregistrationv1.WebhookClientConfig) error {
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := b.typed.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return err
	}
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	hook := admissionregistrationv1.ValidatingWebhook{
		Name: name + ".example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail, ClientConfig: from,
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}
	all := b.typed.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	made, err := all.Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionregistrationv1.ValidatingWebhook{hook}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	return b.awaitCalls(ctx, made)
}

// awaitCalls waits until a webhook's calls are counted.
func (b *Bench) awaitCalls(ctx context.Context, made *admissionregistrationv1.ValidatingWebhookConfiguration) error {
	ctx, cancel := context.WithTimeout(ctx, known)
	defer cancel()
	name := made.Webhooks[0].Name
	for {
		if err := b.ask(ctx, made.Name); err != nil {
			return err
		}
		metrics, err := b.typed.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
		if err != nil {
			return fmt.Errorf("read metrics of the API server: %w", err)
		}
		if strings.Contains(string(metrics), `apiserver_admission_webhook_request_total{code="200",name="`+name+`"`) {
			return nil
		}
		if err := planes.Pause(ctx, known/100); err != nil {
			return fmt.Errorf("the API server does not call %s: %w", name, err)
		}
	}
}

// ask sends a dry-run creation of a ConfigMap.
func (b *Bench) ask(ctx context.Context, namespace string) error {
	one := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "asked", Namespace: namespace}}
	_, err := b.typed.CoreV1().ConfigMaps(namespace).Create(ctx, one, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}
