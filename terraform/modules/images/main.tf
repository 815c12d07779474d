# Machine images by owner and name; no ids, as they differ from region to region. Lists of ids, newest
# first: that of the data source of one image fails without saying what was looked for.

data "aws_ami_ids" "scylla" {
  owners = ["797456418907"] # ScyllaDB
  # AWS marks public images as deprecated after two years; a version that is asked for by name is meant.
  include_deprecated = true

  filter {
    name = "name"
    # Not "2026.1.1*": that would find 2026.1.11 as well.
    values = ["ScyllaDB ${var.scylla_version}", "ScyllaDB ${var.scylla_version} *", "ScyllaDB ${var.scylla_version}-*"]
  }

  filter {
    name   = "architecture"
    values = ["x86_64"]
  }

  filter {
    name   = "state"
    values = ["available"]
  }

  lifecycle {
    postcondition {
      condition     = length(self.ids) > 0 || var.ids["scylla"] != null
      error_message = "Region ${var.region} has no x86_64 image \"ScyllaDB ${var.scylla_version}\" of ScyllaDB (account 797456418907). Choose a released version in the experiment (section aws), or another region: https://docs.scylladb.com/manual/stable/reference/aws-images.html"
    }
  }
}

data "aws_ami_ids" "debian" {
  owners = ["136693071363"] # Debian

  filter {
    name   = "name"
    values = ["debian-${var.debian_version}-amd64-*"]
  }

  filter {
    name   = "architecture"
    values = ["x86_64"]
  }

  filter {
    name   = "state"
    values = ["available"]
  }

  lifecycle {
    postcondition {
      condition     = length(self.ids) > 0 || var.ids["debian"] != null
      error_message = "Region ${var.region} has no x86_64 image \"debian-${var.debian_version}-amd64-*\" of Debian (account 136693071363). Choose another debian_version, or another region: https://wiki.debian.org/Cloud/AmazonEC2Image"
    }
  }
}

locals {
  # For ScyllaDB's first-boot setup: it tunes and makes the file system, but the server is configured and
  # started by Ansible.
  scylla_setup = jsonencode({ start_scylla_on_first_boot = false })

  # Neither image has the agent; ScyllaDB's even masks its service, to have the CPUs for itself. It comes
  # from AWS's own bucket of the region, which the network's S3 endpoint reaches without NAT.
  agent_url   = "https://s3.${var.region}.amazonaws.com/amazon-ssm-${var.region}/latest/debian_amd64/amazon-ssm-agent.deb"
  agent_setup = <<-EOT
    #cloud-config
    runcmd:
      - [python3, -c, "import urllib.request as r; r.urlretrieve('${local.agent_url}', '/root/amazon-ssm-agent.deb')"]
      - [systemctl, unmask, amazon-ssm-agent]
      - [dpkg, -i, /root/amazon-ssm-agent.deb]
      - [systemctl, enable, --now, amazon-ssm-agent]
  EOT

  # The form that ScyllaDB's image reads beside cloud-init.
  scylla_setup_with_agent = <<-EOT
    MIME-Version: 1.0
    Content-Type: multipart/mixed; boundary="part"

    --part
    Content-Type: x-scylla/json

    ${local.scylla_setup}

    --part
    Content-Type: text/cloud-config

    ${local.agent_setup}
    --part--
  EOT

  # All hosts are logged in to at the same time, 32 of them, each by a connection to the bastion; from the 11th that has
  # not logged in yet on sshd drops some by chance (MaxStartups 10:30:100). Debian's sshd_config includes the folder first,
  # and of a setting the first value counts.
  bastion_setup = <<-EOT
    #cloud-config
    write_files:
      - path: /etc/ssh/sshd_config.d/kairoscope.conf
        content: |
          MaxStartups 64:30:128
          PasswordAuthentication no
          AllowAgentForwarding no
          X11Forwarding no
    runcmd:
      - [systemctl, reload, ssh]
  EOT
}
