// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"

	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/cluster-api/test/framework/ginkgoextensions"
)

// The set-ups. A spec has the label of each set-up that it runs in.
const (
	local    = "local"
	inMemory = "inmemory"
)

var flags struct {
	setup     string // local or inMemory
	capstan   string // program under test
	upstream  string // folder of the module sigs.k8s.io/cluster-api/test
	images    string // folder of the images of upstream's programs, for inMemory
	artifacts string // folder for logs, reports and the plane
	keep      bool   // leave clusters behind
}

func init() {
	flag.StringVar(&flags.setup, "setup", local, "local or inmemory")
	flag.StringVar(&flags.capstan, "capstan", "", "program under test")
	flag.StringVar(&flags.upstream, "upstream", "", "folder of the module sigs.k8s.io/cluster-api/test")
	flag.StringVar(&flags.images, "images", "", "folder of the images of upstream's programs")
	flag.StringVar(&flags.artifacts, "artifacts", "", "folder for logs, reports and the plane")
	flag.BoolVar(&flags.keep, "keep", false, "leave clusters behind")
}

var (
	ctx        = ctrl.SetupSignalHandler()
	config     *clusterctl.E2EConfig
	configPath string
	management framework.ClusterProxy
	running    plane
)

func TestUpstreamSpecs(t *testing.T) {
	if flags.capstan == "" || flags.upstream == "" || flags.artifacts == "" {
		t.Skip(`needs programs and folders: run "make peer-e2e"`)
	}
	g := NewWithT(t)
	ctrl.SetLogger(klog.Background())
	RegisterFailHandler(Fail)
	g.Expect(os.MkdirAll(flags.artifacts, 0o700)).To(Succeed())
	log, err := ginkgoextensions.EnableFileLogging(filepath.Join(flags.artifacts, "ginkgo.log"))
	g.Expect(err).ToNot(HaveOccurred())
	defer func() { g.Expect(log.Close()).To(Succeed()) }()
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter != "" {
		suite.LabelFilter = "(" + suite.LabelFilter + ") && "
	}
	suite.LabelFilter += flags.setup
	RunSpecs(t, "Specs of Cluster API", suite, reporter)
}

var _ = BeforeSuite(func() {
	folder := filepath.Join(flags.artifacts, "templates")
	data := filepath.Join(flags.upstream, "e2e", "data")
	Expect(os.MkdirAll(folder, 0o700)).To(Succeed())
	Expect(convertTemplates(flags.setup, filepath.Join(data, "infrastructure-docker", "main"), folder)).To(Succeed())
	if flags.setup == inMemory {
		Expect(writeComponents(flags.upstream, folder)).To(Succeed())
	}
	made, err := newConfig(flags.setup, folder, data)
	Expect(err).ToNot(HaveOccurred())
	text, err := yaml.Marshal(made)
	Expect(err).ToNot(HaveOccurred())
	file := filepath.Join(flags.artifacts, "config.yaml")
	Expect(os.WriteFile(file, text, 0o600)).To(Succeed())
	config = clusterctl.LoadE2EConfig(ctx, clusterctl.LoadE2EConfigInput{ConfigPath: file})
	in := clusterctl.CreateRepositoryInput{E2EConfig: config, RepositoryFolder: filepath.Join(flags.artifacts, "repository")}
	in.RegisterClusterResourceSetConfigMapTransformation(config.MustGetVariable("CNI"), "CNI_RESOURCES")
	configPath = clusterctl.CreateRepository(ctx, in)

	running = startPlane(flags.setup, filepath.Join(flags.artifacts, "plane"))
	if flags.setup == inMemory {
		running.installUpstream(configPath)
	}
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	management = framework.NewClusterProxy("capstan", running.kubeconfig(), scheme)
	createClusterInfo()
})

// createClusterInfo creates the ConfigMap that kubeadm creates in a management cluster.
// KCPRemediationSpec reads the address of the API server from it.
func createClusterInfo() {
	GinkgoHelper()
	full, err := clientcmd.LoadFromFile(running.kubeconfig())
	Expect(err).ToNot(HaveOccurred())
	public := clientcmdapi.NewConfig()
	public.Clusters[""] = full.Clusters[full.Contexts[full.CurrentContext].Cluster]
	text, err := clientcmd.Write(*public)
	Expect(err).ToNot(HaveOccurred())
	Expect(management.GetClient().Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"},
		Data:       map[string]string{"kubeconfig": string(text)},
	})).To(Succeed())
}

var _ = AfterSuite(func() {
	if management != nil {
		c, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		management.Dispose(c)
	}
	if running.dir != "" && !flags.keep {
		running.stop()
	}
})
